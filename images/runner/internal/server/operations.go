package server

import (
	"encoding/json"

	"episodes.dev/runner/internal/fault"
	"episodes.dev/runner/internal/proc"
)

type nothing struct{}

var operations map[string]operation

func init() {
	operations = map[string]operation{
		"info": {run: typed(info)},

		"exec":         {recorded: true, reserve: execReserve, run: typed(exec)},
		"cancel":       {run: typed(cancel)},
		"killAll":      {recorded: true, run: typed(killAll)},
		"start":        {recorded: true, run: typed(start)},
		"list":         {run: typed(list)},
		"poll":         {run: typed(poll)},
		"writeProcess": {recorded: true, run: typed(writeProcess)},
		"kill":         {recorded: true, run: typed(kill)},
		"remove":       {recorded: true, run: typed(remove)},

		"stat":          {run: typed(stat)},
		"readFile":      {run: typed(readFile)},
		"listDirectory": {run: typed(listDirectory)},
		"writeFile":     {recorded: true, changesFiles: true, run: typed(writeFile)},
		"openUpload":    {recorded: true, run: typed(openUpload)},
		"writeUpload":   {run: typed(writeUpload)},
		"commitUpload":  {recorded: true, changesFiles: true, run: typed(commitUpload)},
		"abortUpload":   {run: typed(abortUpload)},
		"openArchive":   {recorded: true, run: typed(openArchive)},
		"sealUpload":    {run: typed(sealUpload)},
		"unpack":        {recorded: true, changesFiles: true, run: typed(unpack)},
		"openPack":      {recorded: true, run: typed(openPack)},
		"readPack":      {run: typed(readPack)},
		"closePack":     {run: typed(closePack)},
		"removeFile":    {recorded: true, changesFiles: true, run: typed(removeFile)},
		"makeDirectory": {recorded: true, changesFiles: true, run: typed(makeDirectory)},

		"appendJournal": {run: typed(appendJournal)},
		"readJournal":   {run: typed(readJournal)},

		"forget":   {run: typed(forget)},
		"requests": {run: typed(requests)},
	}
}

type infoResult struct {
	Env        []string `json:"env"`
	WorkingDir string   `json:"workingDir"`
	UID        int      `json:"uid"`
	GID        int      `json:"gid"`
}

func execReserve(raw json.RawMessage) int64 {
	var limits struct {
		OutputLimitBytes int64 `json:"outputLimitBytes"`
		MergeOutput      bool  `json:"mergeOutput"`
	}
	_ = json.Unmarshal(raw, &limits)
	reserve := min(max(limits.OutputLimitBytes, 0), proc.MaxOutputLimit)
	if !limits.MergeOutput {
		reserve *= 2
	}
	return reserve
}

func exec(s *Server, c call, request proc.ExecRequest) (any, [][]byte, error) {
	request.Generation = c.generation
	onStart := func(pid int) { s.setRunning(c.id, pid) }
	defer s.setRunning(c.id, 0)
	result, output, err := s.runtime.Exec(request, c.payload, onStart)
	if err != nil {
		return nil, nil, err
	}
	return result, output, nil
}

func (s *Server) setRunning(id string, pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pid == 0 {
		delete(s.running, id)
	} else {
		s.running[id] = pid
	}
}

type cancelRequest struct {
	Request string `json:"request"`
}

type cancelResult struct {
	Running bool `json:"running"`
}

// cancel kills a running exec; its own answer then tells of the signal.
func cancel(s *Server, _ call, request cancelRequest) (any, [][]byte, error) {
	s.mu.Lock()
	pid := s.running[request.Request]
	s.mu.Unlock()
	if pid != 0 {
		proc.KillTree(pid)
	}
	return cancelResult{Running: pid != 0}, nil, nil
}

type killAllResult struct {
	Killed int `json:"killed"`
}

// killAll kills the runner attach of the asking client too: the agent may have got hold of it in the moment before it
// protected itself. The client attaches again and then finds this answer.
func killAll(s *Server, _ call, _ nothing) (any, [][]byte, error) {
	var result killAllResult
	var left []int
	s.runtime.Reaper.Hold(func() {
		result.Killed, left = proc.KillAll()
	})
	// What changes files since before then ends first; what only now begins to is refused.
	s.gate.Lock()
	s.gate.Unlock()
	keepWorkingDir(s.runtime.WorkingDir) // the asking client is dead too, and will come again
	if len(left) > 0 {
		return nil, nil, fault.New(fault.KillIncomplete, "processes %v cannot be killed (CAP_KILL, or in the kernel)", left)
	}
	return result, nil, nil
}

func start(s *Server, c call, request proc.StartRequest) (any, [][]byte, error) {
	request.Generation = c.generation
	status, err := s.table.Start(request)
	return status, nil, err
}

func list(s *Server, _ call, _ nothing) (any, [][]byte, error) {
	return s.table.List(), nil, nil
}

type pollRequest struct {
	Process     string  `json:"process"`
	Cursor      int64   `json:"cursor"`
	LimitBytes  int     `json:"limitBytes"`
	WaitSeconds float64 `json:"waitSeconds"`
}

func poll(s *Server, _ call, request pollRequest) (any, [][]byte, error) {
	polled, data, err := s.table.Poll(request.Process, request.Cursor, request.LimitBytes, request.WaitSeconds)
	return polled, [][]byte{data}, err
}

type writeProcessRequest struct {
	Process    string `json:"process"`
	CloseStdin bool   `json:"closeStdin"`
}

func writeProcess(s *Server, c call, request writeProcessRequest) (any, [][]byte, error) {
	return nothing{}, nil, s.table.Write(request.Process, c.payload, request.CloseStdin)
}

type killRequest struct {
	Process string `json:"process"`
	Signal  int    `json:"signal"`
}

func kill(s *Server, _ call, request killRequest) (any, [][]byte, error) {
	status, err := s.table.Kill(request.Process, request.Signal)
	return status, nil, err
}

type processRequest struct {
	Process string `json:"process"`
}

func remove(s *Server, _ call, request processRequest) (any, [][]byte, error) {
	return nothing{}, nil, s.table.Remove(request.Process)
}

type appendRequest struct {
	Index int `json:"index"`
}

type journalResult struct {
	Length int   `json:"length"`
	Sizes  []int `json:"sizes,omitempty"`
}

func appendJournal(s *Server, c call, request appendRequest) (any, [][]byte, error) {
	length, err := s.journal.Append(request.Index, c.payload)
	return journalResult{Length: length}, nil, err
}

type readJournalRequest struct {
	First      int `json:"first"`
	LimitBytes int `json:"limitBytes"`
}

func readJournal(s *Server, _ call, request readJournalRequest) (any, [][]byte, error) {
	entries, length := s.journal.Read(request.First, request.LimitBytes)
	result := journalResult{Length: length}
	for _, entry := range entries {
		result.Sizes = append(result.Sizes, len(entry))
	}
	return result, entries, nil
}

type forgetRequest struct {
	Requests []string `json:"requests"`
}

func forget(s *Server, _ call, request forgetRequest) (any, [][]byte, error) {
	s.store.Forget(request.Requests)
	return nothing{}, nil, nil
}

func requests(s *Server, _ call, _ nothing) (any, [][]byte, error) {
	return s.store.List(), nil, nil
}

func info(s *Server, _ call, _ nothing) (any, [][]byte, error) {
	return infoResult{
		Env: s.runtime.ImageEnv, WorkingDir: s.runtime.WorkingDir, UID: s.runtime.UID, GID: s.runtime.GID,
	}, nil, nil
}

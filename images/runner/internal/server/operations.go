package server

import (
	"encoding/json"

	"episodes.dev/runner/internal/fault"
	"episodes.dev/runner/internal/files"
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
		"writeFile":     {recorded: true, run: typed(writeFile)},
		"openUpload":    {recorded: true, run: typed(openUpload)},
		"writeUpload":   {run: typed(writeUpload)},
		"commitUpload":  {recorded: true, run: typed(commitUpload)},
		"abortUpload":   {run: typed(abortUpload)},
		"removeFile":    {recorded: true, run: typed(removeFile)},
		"makeDirectory": {recorded: true, run: typed(makeDirectory)},

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
	if len(left) > 0 {
		return nil, nil, fault.New(fault.KillIncomplete, "processes %v cannot be killed (CAP_KILL, or in the kernel)", left)
	}
	return result, nil, nil
}

func start(s *Server, _ call, request proc.StartRequest) (any, [][]byte, error) {
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

func stat(s *Server, _ call, request files.StatRequest) (any, [][]byte, error) {
	found, err := s.files.Stat(request)
	return found, nil, err
}

func readFile(s *Server, _ call, request files.ReadRequest) (any, [][]byte, error) {
	result, data, err := s.files.Read(request)
	return result, [][]byte{data}, err
}

func listDirectory(s *Server, _ call, request files.ListRequest) (any, [][]byte, error) {
	result, names, err := s.files.List(request)
	return result, [][]byte{names}, err
}

func writeFile(s *Server, c call, request files.WriteRequest) (any, [][]byte, error) {
	written, err := s.files.Write(request, c.payload)
	return written, nil, err
}

type uploadRequest struct {
	Upload      string `json:"upload"`
	OffsetBytes int64  `json:"offsetBytes"`
}

type openUploadRequest struct {
	files.WriteRequest
	Upload string `json:"upload"`
}

func openUpload(s *Server, c call, request openUploadRequest) (any, [][]byte, error) {
	return nothing{}, nil, s.files.OpenUpload(request.Upload, c.client, request.WriteRequest)
}

func writeUpload(s *Server, c call, request uploadRequest) (any, [][]byte, error) {
	return nothing{}, nil, s.files.WriteUpload(request.Upload, request.OffsetBytes, c.payload)
}

func commitUpload(s *Server, _ call, request uploadRequest) (any, [][]byte, error) {
	written, err := s.files.CommitUpload(request.Upload)
	return written, nil, err
}

func abortUpload(s *Server, _ call, request uploadRequest) (any, [][]byte, error) {
	s.files.AbortUpload(request.Upload)
	return nothing{}, nil, nil
}

type removeResult struct {
	Existed bool `json:"existed"`
}

func removeFile(s *Server, _ call, request files.RemoveRequest) (any, [][]byte, error) {
	existed, err := s.files.Remove(request)
	return removeResult{Existed: existed}, nil, err
}

func makeDirectory(s *Server, _ call, request files.MakeRequest) (any, [][]byte, error) {
	return nothing{}, nil, s.files.MakeDirectory(request)
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

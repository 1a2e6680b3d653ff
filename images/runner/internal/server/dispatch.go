package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"episodes.dev/runner/internal/fault"
	"episodes.dev/runner/internal/store"
	"episodes.dev/runner/internal/wire"
)

// request is the header of each message from the operator.
type request struct {
	ID         string          `json:"id"`
	Operation  string          `json:"op"`
	Forget     []string        `json:"forget,omitempty"`
	Parameters json.RawMessage `json:"params"`
}

type response struct {
	Error  *fault.Error `json:"error,omitempty"`
	Result any          `json:"result,omitempty"`
}

// call is one request while it runs.
type call struct {
	id         string
	client     string
	payload    []byte
	generation int
}

// operation answers a request. Those that change something are recorded and run at most once per id; the others may run
// again when a client asks again.
type operation struct {
	recorded bool
	// changesFiles: killAll waits for it, and it is refused if it was asked for before.
	changesFiles bool
	reserve      func(parameters json.RawMessage) int64
	run          func(s *Server, c call, parameters json.RawMessage) (any, [][]byte, error)
}

func isDamage(err error) bool { return errors.Is(err, wire.ErrDamaged) }

func (s *Server) dispatch(c *connection, stream uint32, message []byte) {
	header, payload, err := wire.Split(message)
	var asked request
	if err == nil {
		err = json.Unmarshal(header, &asked)
	}
	answer := func(response wire.Message) { c.sender.Send(stream, response) }
	if err != nil {
		answer(failed(fault.New(fault.InvalidRequest, "%v", err)))
		return
	}
	s.store.Forget(asked.Forget)
	known, found := operations[asked.Operation]
	if !found {
		answer(failed(fault.New(fault.InvalidRequest, "this runner knows no operation %q", asked.Operation)))
		return
	}
	running := call{id: asked.ID, client: c.client, payload: payload, generation: s.runtime.Reaper.Generation()}
	if !known.recorded {
		go func() { answer(s.perform(known, running, asked.Parameters)) }()
		return
	}
	reserve := int64(4096)
	if known.reserve != nil {
		reserve += known.reserve(asked.Parameters)
	}
	digest := store.DigestOf(asked.Operation, asked.Parameters, payload)
	run, err := s.store.Begin(asked.ID, digest, reserve, answer)
	switch {
	case err != nil:
		answer(failed(fault.From(err)))
	case run:
		go func() { s.store.Finish(asked.ID, s.perform(known, running, asked.Parameters)) }()
	}
}

func (s *Server) perform(known operation, c call, parameters json.RawMessage) (answer wire.Message) {
	defer func() {
		if reason := recover(); reason != nil {
			answer = failed(fault.New(fault.RunnerFault, "%v\n%s", reason, debug.Stack()))
		}
	}()
	if known.changesFiles {
		s.gate.RLock()
		defer s.gate.RUnlock()
		if c.generation != s.runtime.Reaper.Generation() {
			return failed(fault.OnPath("", unix.ECANCELED))
		}
	}
	result, payload, err := known.run(s, c, parameters)
	if err != nil {
		return failed(fault.From(err))
	}
	answer, err = wire.NewMessage(response{Result: result}, payload...)
	if err != nil {
		return failed(fault.From(fmt.Errorf("encoding the answer: %w", err)))
	}
	return answer
}

func failed(err *fault.Error) wire.Message {
	message, _ := wire.NewMessage(response{Error: err})
	return message
}

// typed reads an operation's parameters into its own type.
func typed[P any](run func(s *Server, c call, parameters P) (any, [][]byte, error)) func(*Server, call, json.RawMessage) (any, [][]byte, error) {
	return func(s *Server, c call, raw json.RawMessage) (any, [][]byte, error) {
		var parameters P
		if err := json.Unmarshal(raw, &parameters); err != nil {
			return nil, nil, fault.New(fault.InvalidRequest, "parameters: %v", err)
		}
		return run(s, c, parameters)
	}
}

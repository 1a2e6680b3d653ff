package server

import (
	"encoding/binary"
	"encoding/json"
	"net"
	"os"
	"sync"
	"time"

	"episodes.dev/runner/internal/wire"
)

// connection is one attached client.
type connection struct {
	server *Server
	socket *net.UnixConn
	input  *os.File
	output *os.File
	sender *wire.Sender
	closed sync.Once
	client string
}

type serverHello struct {
	Version       int     `json:"version"`
	Instance      string  `json:"instance"`
	WindowBytes   int     `json:"windowBytes"`
	UptimeSeconds float64 `json:"uptimeSeconds"`
	JournalLength int     `json:"journalLength"`
}

type clientHello struct {
	Version int    `json:"version"`
	Client  string `json:"client"`
}

type farewell struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

func newConnection(server *Server, socket *net.UnixConn, input, output *os.File) *connection {
	c := &connection{server: server, socket: socket, input: input, output: output}
	c.sender = wire.NewSender(output, func() { go c.close() })
	return c
}

// run serves until the client goes, a newer one comes or the stream is damaged. It returns with everything closed.
func (c *connection) run() {
	hello, _ := json.Marshal(serverHello{
		Version: wire.Version, Instance: c.server.instance, WindowBytes: wire.Window,
		UptimeSeconds: time.Since(c.server.begin).Seconds(), JournalLength: c.server.journal.Length(),
	})
	c.sender.Control(wire.Hello, hello)
	go c.watchSocket()
	if err := c.read(); err != nil {
		c.goodbye("Damaged", err.Error())
	}
	c.sender.Close()
	select {
	case <-c.sender.Flushed():
	case <-time.After(time.Second):
	}
	c.close()
}

// watchSocket notices that the runner attach has died while its pipes stay open elsewhere.
func (c *connection) watchSocket() {
	var one [1]byte
	_, _ = c.socket.Read(one[:])
	c.close()
}

func (c *connection) close() {
	c.closed.Do(func() {
		c.sender.Close()
		c.input.Close()
		c.output.Close()
		c.socket.Close()
	})
}

// goodbye tells the client why, if it still reads, and makes run end.
func (c *connection) goodbye(reason, message string) {
	body, _ := json.Marshal(farewell{Reason: reason, Message: message})
	c.sender.Control(wire.Goodbye, body)
	c.sender.Close()
	_ = c.input.SetReadDeadline(time.Unix(1, 0))
	// Where the input knows no deadlines, or the output takes nothing any more.
	time.AfterFunc(time.Second, c.close)
}

// read handles frames until the stream ends; an error means that it was damaged.
func (c *connection) read() error {
	frames := wire.NewReader(c.input)
	assembler := wire.NewAssembler()
	var taken, acknowledged uint64
	for {
		kind, body, err := frames.Next()
		if err != nil {
			if isDamage(err) {
				return err
			}
			return nil
		}
		switch kind {
		case wire.Hello:
			var hello clientHello
			if json.Unmarshal(body, &hello) != nil || hello.Version != wire.Version {
				c.goodbye("VersionMismatch", "this runner speaks another version of the protocol")
				return nil
			}
			c.client = hello.Client
			c.server.store.ForgetOthers(hello.Client)
			c.server.files.AbortOthers(hello.Client)
		case wire.Part:
			taken += uint64(len(body) + 1 + wire.PrefixLength)
			stream, message, complete, err := assembler.Add(body)
			if err != nil {
				return err
			}
			if complete {
				c.server.dispatch(c, stream, message)
			}
			if taken-acknowledged >= wire.Window/4 {
				acknowledged = taken
				c.sender.Acknowledge(taken)
			}
		case wire.Ack:
			if len(body) != 8 {
				return wire.ErrDamaged
			}
			if err := c.sender.Acknowledged(binary.BigEndian.Uint64(body)); err != nil {
				return err
			}
		case wire.Ping:
			c.sender.Control(wire.Pong, body)
		case wire.Goodbye:
			return nil
		}
	}
}

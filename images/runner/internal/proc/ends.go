package proc

import (
	"os"
	"syscall"
)

// ends are the standard descriptors of a command: its own, and the other sides of them.
type ends struct {
	standard [3]int
	input    *os.File // nil where the command reads /dev/null
	pipes    []*pipe  // one for each output
	theirs   []int
}

// openEnds makes a command's descriptors, with stderr into stdout where there is one output.
func openEnds(outputs []sink, withInput bool) (made *ends, err error) {
	made = &ends{}
	defer func() {
		if err != nil {
			made.closeTheirs()
			made.abandon()
		}
	}()
	if withInput {
		var input [2]int
		if err = syscall.Pipe2(input[:], syscall.O_CLOEXEC); err != nil {
			return made, err
		}
		_ = syscall.SetNonblock(input[1], true)
		made.input = os.NewFile(uintptr(input[1]), "input")
		made.standard[0] = input[0]
	} else if made.standard[0], err = syscall.Open("/dev/null", syscall.O_RDONLY|syscall.O_CLOEXEC, 0); err != nil {
		return made, err
	}
	made.theirs = append(made.theirs, made.standard[0])
	for index, output := range outputs {
		var ours *pipe
		if ours, made.standard[1+index], err = newPipe(output); err != nil {
			return made, err
		}
		made.pipes = append(made.pipes, ours)
		made.theirs = append(made.theirs, made.standard[1+index])
	}
	if len(outputs) == 1 {
		made.standard[2] = made.standard[1]
	}
	return made, nil
}

// closeTheirs closes the command's sides here.
func (e *ends) closeTheirs() {
	for _, descriptor := range e.theirs {
		syscall.Close(descriptor)
	}
}

// abandon closes our sides where no command got the others.
func (e *ends) abandon() {
	for _, each := range e.pipes {
		each.abandon()
	}
	if e.input != nil {
		e.input.Close()
	}
}

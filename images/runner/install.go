package main

import (
	"io"
	"os"
)

// install copies this program beside its destination and renames it, so that a half-written one is never run. Nobody may
// read it: a program that cannot be read is not dumpable from its first instruction on, so that no process of the
// container can look into `runner attach` before it has protected itself.
func install(destination string) error {
	source, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer source.Close()
	temporary := destination + ".part"
	target, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o700)
	if err != nil {
		return err
	}
	if _, err := io.Copy(target, source); err != nil {
		return err
	}
	if err := target.Chmod(0o111); err != nil {
		return err
	}
	if err := target.Close(); err != nil {
		return err
	}
	return os.Rename(temporary, destination)
}

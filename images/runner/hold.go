package main

import (
	"os"
	"os/signal"
	"syscall"
)

// hold keeps its container running, so that the pod stays ready, until the kubelet ends it.
func hold() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	<-ended
}

package main

import (
	"net"
	"time"
)

// dialTime is long enough for a connection inside a cluster, and short enough to wait for one that is dropped.
const dialTime = 500 * time.Millisecond

// reaches tells whether a TCP connection from this container is accepted.
func reaches(address string) bool {
	connection, err := net.DialTimeout("tcp", address, dialTime)
	if err != nil {
		return false
	}
	connection.Close()
	return true
}

// Command coredns is CoreDNS with only the plugins that cluster DNS needs, which
// spares the many cloud provider modules of the full program.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loop"
	_ "github.com/coredns/coredns/plugin/ready"
)

func main() {
	// The order in which a query passes the plugins.
	dnsserver.Directives = []string{
		"health", "ready", "errors", "cache", "loop", "kubernetes", "forward",
	}
	coremain.Run()
}

// Package agents is where agents of other hosts come in: on every network that machines are on, beside the services that machines
// boot from, and in the network of every cluster that has guests.
//
// What enters: rows of networks and clusters, followed while they come, change and go. What leaves: the calls of agents, to the
// monitor, from as many at once as their shares of connections are.
package agents

import (
	"context"
	"log/slog"
	"net"
	"sync"

	"muster/internal/boot/initramfs"
	"muster/internal/core"
	"muster/internal/core/telemetry"
	switches "muster/internal/drivers/switch"
	"muster/internal/identity"
	"muster/internal/kit/limit"
	"muster/internal/monitor"
	"muster/internal/netboot/control"
)

// Doors are those of one controller. Make them with New.
type Doors struct {
	Config
	boots *control.Controller
	first func() ([]byte, error) // the first stage, packed once, when the first network needs it

	mu       sync.Mutex
	troubles map[string]Trouble // by network
}

// Config is what doors are made of.
type Config struct {
	DB        *core.Store
	Authority *identity.Authority
	Monitor   *monitor.Monitor // hears agents
	Files     Files            // that machines boot
	Firmware  []string         // folders with iPXE's files: an operator's own first
	Switches  switches.Registry
	Clusters  Clusters
	Limits    *limit.Group // of all doors of agents
	Budget    limit.Budget
	Log       *slog.Logger
	Telemetry *telemetry.Telemetry
}

// Clusters are the networks of clusters, where agents call.
type Clusters interface {
	// Listen opens a port at the gateway of a cluster's network; os.ErrNotExist where there is none, yet or any more.
	Listen(ctx context.Context, cluster string, port int) (net.Listener, error)
}

// New makes doors, which are shut.
func New(c Config) *Doors {
	return &Doors{
		Config: c, first: sync.OnceValues(initramfs.Archive), troubles: map[string]Trouble{},
		boots: &control.Controller{DB: c.DB, Authority: c.Authority, Images: c.Files, Telemetry: c.Telemetry},
	}
}

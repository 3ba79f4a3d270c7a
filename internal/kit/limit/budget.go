package limit

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Budget is how many connections each door has of a process's file descriptors. What is left is for the database, files,
// nodes' processes, machines that boot, and the ways into clusters behind each session.
type Budget struct {
	Files   int // descriptors that the process may have
	API     int
	Agents  int // at all agents' doors together
	Cluster int // at one cluster's
	Web     int
	SSH     int
	Control int // of the host's administrator
	Metrics int
}

// fewFiles is how many descriptors a controller should have at least.
const fewFiles = 8192

// Raise lets this process have as many descriptors as it may, and says how many that is.
func Raise() (int, error) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 0, fmt.Errorf("ask for the limit of file descriptors: %w", err)
	}
	if l.Cur < l.Max {
		l.Cur = l.Max
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
			return 0, fmt.Errorf("raise the limit of file descriptors to %d: %w", l.Max, err)
		}
	}
	return int(min(l.Cur, 1<<30)), nil
}

// BudgetOf divides so many descriptors.
func BudgetOf(files int) Budget {
	part := func(of, most int) int { return max(16, min(files/of, most)) }
	return Budget{
		Files: files, API: part(4, 8192), Agents: part(4, 1<<16), Cluster: part(16, 1024), Web: part(16, 4096),
		SSH:     part(16, 4096),
		Control: part(64, 256), Metrics: part(64, 64),
	}
}

// Few says that there are too few descriptors for a site of some size; "" if not.
func (b Budget) Few() string {
	if b.Files >= fewFiles {
		return ""
	}
	return fmt.Sprintf("this process may have %d file descriptors only, so the API has %d connections and all agents together "+
		"%d; give it more "+
		"(LimitNOFILE= of systemd, ulimit -Hn)", b.Files, b.API, b.Agents)
}

// APILimits are those of users and their programs.
func (b Budget) APILimits() Limits {
	return Limits{Door: "api", Total: b.API, Each: 256, Header: 10 * time.Second, Idle: 2 * time.Minute, Body: time.Minute,
		Stall: 30 * time.Second, Plain: true}
}

// ControlLimits are those of the socket for the host's administrator.
func (b Budget) ControlLimits() Limits {
	l := b.APILimits()
	l.Door, l.Total = "control", b.Control
	return l
}

// MetricsLimits are those of the address for metrics.
func (b Budget) MetricsLimits() Limits {
	l := b.APILimits()
	l.Door, l.Total, l.Each, l.Idle = "metrics", b.Metrics, 8, time.Minute
	return l
}

// AgentsLimits are those of the agents of a network of machines, or of this host. Agents call every 5 s.
func (b Budget) AgentsLimits(door string) Limits {
	return Limits{Door: door, Total: b.Agents, Each: 32, Header: 10 * time.Second, Idle: 30 * time.Second, Body: 30 * time.Second,
		Stall: 30 * time.Second}
}

// ClusterLimits are those of the agents of one cluster's guests.
func (b Budget) ClusterLimits() Limits {
	l := b.AgentsLimits("guests")
	l.Total = b.Cluster
	return l
}

// WebLimits are those of browsers. What they send to apps takes as long as it takes.
func (b Budget) WebLimits() Limits {
	return Limits{Door: "web", Total: b.Web, Each: 128, Header: 10 * time.Second, Idle: 2 * time.Minute, Stall: time.Minute}
}

// SSHLimits are those of the SSH gateway, which itself puts out who does not say who they are.
func (b Budget) SSHLimits() Limits { return Limits{Door: "ssh", Total: b.SSH, Each: 64} }

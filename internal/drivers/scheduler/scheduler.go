// Package scheduler is the interface of schedulers: the programs that start jobs on a cluster's nodes.
//
// What enters: a cluster's configuration, and what a node's agent lends to drivers (Host). What leaves: the daemons, files and
// checks of a node; on the head, what the scheduler says of nodes and jobs (View), and changes of its nodes. Each driver is a
// folder beside this file and a line in package drivers; the rest of the house asks Capabilities and protocol.NodeState
// instead of names. Package schedulertest is the contract that all drivers pass.
package scheduler

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"muster/internal/kit/clock"
	"muster/internal/kit/lists"
	"muster/internal/protocol"
)

// Factory is all that Muster knows of a scheduler.
type Factory struct {
	Name  string // in the cluster file
	Title string // as people write it
	Caps  Capabilities
	Words Words
	// HostFile is where, on every node, Open MPI finds the nodes to start ranks on, unless it is told otherwise; "": the
	// scheduler tells it.
	HostFile string
	// Open returns the driver of one boot of a node. It does nothing yet.
	Open func(Host) Driver
	// Launch reads what the scheduler tells the programs of a job in their environment; nil: it tells nothing.
	Launch Launch
	// Script reads what a script says to the scheduler, in comments of its own kind, and returns how long the job may run by it;
	// 0: it does not say. nil: scripts say nothing to it. The error says in which line is what a task's job cannot have. The
	// Runner's jobs have the rest.
	Script func(script string) (limit time.Duration, err error)
	// Acts are what users run on the head to do something with a job of theirs; nil: it has no jobs.
	Acts map[Act]func(job string) []string
}

// Act is something that users do with jobs of theirs.
type Act string

// The acts. A held job does not start until it is released. One that is requeued ends, and starts again.
const (
	Cancel  Act = "cancel"
	Output  Act = "output" // it prints what the job has written
	Hold    Act = "hold"
	Release Act = "release"
	Requeue Act = "requeue"
)

// Acts lists them.
func Acts() []Act { return []Act{Cancel, Output, Hold, Release, Requeue} }

// Capabilities are what others must know of a scheduler.
type Capabilities struct {
	// Jobs says that it knows of nodes and jobs, and tells: nodes are ready when it can use them and go when their jobs have
	// ended, and queues may grow with jobs. Its Driver implements Control and Runner. Without, programs start on the head, at
	// once.
	Jobs bool
	// Controller is the daemon on the head that keeps the queue, and the name of the check that the head's look at it sets. It is
	// stopped before the head goes. "" where there is none.
	Controller string
	// Late are the checks of a compute node that pass only when the node was accepted.
	Late []string
	// Credential is a secret that all nodes of a cluster share; the zero value where they need none.
	Credential Credential
	// Accounts are the programs, and daemons of that name, that keep accounts of jobs on a head whose image has them in
	// /usr/sbin; nil: it keeps none.
	Accounts []string
	// JobRoot is the name of root's processes that all programs of a job descend from; "": jobs are not told from other programs.
	JobRoot string
	// Listed says that users' programs learn from the head which nodes are ready: it hears of each at once.
	Listed bool
}

// Credential is a key by which a cluster's daemons know one another. Secrets are named by it: NAME/PROJECT/CLUSTER.
type Credential struct {
	Name  string
	Bytes int
}

// Words say in events what happens to nodes, in a user's words.
type Words struct {
	Leaves     string // a compute node, when it is to go
	Renews     string // a compute node, when it is to reboot
	HeadLeaves string // the head, when its cluster is to pause
	HeadRenews string // the head, when it is to reboot
	HeadStops  string // what the head's end waits for
	HeadLate   string // that it has waited long enough; %s is how long
}

// JobWords are those of a scheduler that knows of jobs.
func JobWords(title string) Words {
	return Words{
		Leaves:     "no new jobs; running ones may end",
		Renews:     "no new jobs; reboots once running ones have ended",
		HeadLeaves: title + " stops",
		HeadRenews: title + "'s controller stops; jobs run on",
		HeadStops:  title + " stops and saves its state",
		HeadLate:   title + " did not stop within %s; what it saved last counts",
	}
}

// Host is what a node's agent lends to a driver.
type Host struct {
	Files Files
	// Run runs a program to its end and returns what it wrote to standard output. Of one that fails, the error's text holds what
	// it wrote to standard error. Words before the program that have a "=" are added to its environment, as a shell does.
	Run       func(ctx context.Context, argv ...string) ([]byte, error)
	Dial      func(ctx context.Context, network, address string) error // opens a connection and closes it again
	Listening func(port int) bool                                      // some process of the node listens on the TCP port
	Running   func(daemon string) bool                                 // one of the driver's own
	Printf    func(format string, args ...any)                         // a line on the node's console
	Go        func(func())                                             // the node's end waits for it
	Home      func(context.Context) error                              // waits until /home is there
	Accepted  func(context.Context) error                              // waits until the node may have jobs
	GPUs      func(protocol.Peer) []protocol.GPUFacts                  // that the node sees and may use
	// Whole says that the node is a machine or a guest: all CPUs and memory that it finds are its own.
	Whole bool
}

// Files are the node's. Owners are names of accounts; "" is root.
type Files interface {
	Path(name string) string          // where the file is for programs of this process's own, such as statfs
	Read(name string) (string, error) // "" of a file that is not there
	// Write makes the file be so, in one step. It says whether the content changed.
	Write(name string, content []byte, mode fs.FileMode, owner string) (changed bool, err error)
	Directory(name string, mode fs.FileMode, owner string) error // and its parents
	Exists(name string) bool                                     // false also of what cannot be looked at
}

// Stale is a daemon whose files have changed since it read them.
type Stale struct {
	Daemon string
	Reads  bool // it reads them again on SIGHUP; if not, it must restart
}

// Driver is a scheduler's part of a node's agent. Methods are called one at a time, Prepare first; each may be called again.
type Driver interface {
	// Prepare makes what has to be there before daemons start, and what an image, or a /run in memory, does not have.
	Prepare(context.Context, *protocol.Config) error
	// Apply writes the files that a configuration asks for, and names the daemons that have older ones if they run.
	Apply(*protocol.Config) ([]Stale, error)
	// Daemons are in order of start. They start side by side; who needs another waits for it.
	Daemons(*protocol.Config) []Daemon
	// Checks are those of the node's health.
	Checks(*protocol.Config) []Check
	// Settled waits until what would disturb a measurement of the node has started. An error means that ctx has ended.
	Settled(ctx context.Context) error
}

// Daemon is a program that runs as long as the node does.
type Daemon struct {
	Name string
	Argv []string
	User string                      // the account that it runs as; "": root
	Wait func(context.Context) error // until it may start; nil: at once. An error means that ctx has ended
	// Grace is how long it may take to end; 0: a moment.
	Grace time.Duration
	// Noise are parts of lines that say nothing and come often.
	Noise []string
}

// Check is one health check. Its probe is cheap: all nodes of a machine run theirs on the same cores.
type Check struct {
	Name   string
	Daemon string        // whose start or end makes it due at once
	Every  time.Duration // after a pass
	Probe  func(context.Context) error
	First  func(context.Context) error // a cheaper probe until the first pass; nil: Probe
}

// Where control groups are on nodes whose kernel is their own.
const (
	CPUSets       = "/run/muster/cgroup/cpuset" // those of cgroup v1, if the kernel has it
	ControlGroups = "/sys/fs/cgroup"            // the tree of cgroup v2, with the controllers that are not in v1
)

// ErrStarting: the scheduler does not answer yet, and will soon.
var ErrStarting = errors.New("not listening")

// ErrRefusedJob: the scheduler does not take the job as it is.
var ErrRefusedJob = errors.New("refused")

// Ours begins the reason of every drain that is Muster's to end.
const Ours = "muster:"

// Control is a Driver on the head of a cluster whose scheduler knows of jobs. Nodes join by themselves, and leave by being
// removed. All methods may be called again; changing what is so already is a success.
type Control interface {
	// Observe reads all nodes and jobs. ErrStarting while it cannot be asked yet.
	Observe(context.Context) (View, error)
	// Drain lets no new job start on the node; running ones go on.
	Drain(ctx context.Context, node, reason string) error
	// Resume ends a drain.
	Resume(ctx context.Context, node string) error
	// Remove makes the scheduler forget the node, and first ends what it has there. A node that is still known afterwards, as
	// something ends there, is for the next call.
	Remove(ctx context.Context, node string) error
	// End takes the job off its nodes: back into the queue, or cancelled if it may not be queued again.
	End(ctx context.Context, job int) error
	// Refuse makes the scheduler refuse new jobs of these users, by number, and of no others. Their jobs that run or wait go on.
	// It is first called before the daemons start.
	Refuse(users []int) error
}

// Suspender is a Control whose jobs would run out of time while their nodes sleep.
type Suspender interface {
	// Suspend is called before the nodes sleep.
	Suspend(context.Context) error
	// Awake is called while they do not, again and again.
	Awake(context.Context) error
}

// Teller is a Control that tells people of jobs.
type Teller interface {
	// Tell lists the jobs that there are, and those that ended at since or later, in order of their ends: all that ended before
	// Until, which may be any time after since, or zero where it is not known yet, or never will be. It may be called beside
	// other methods, and again with a time that it was called with before.
	Tell(ctx context.Context, since time.Time) (protocol.JobsTold, error)
}

// View is what a scheduler says at one moment.
type View struct {
	Nodes []protocol.NodeState
	Jobs  map[string][]Job // by node, those that hold something of it
	protocol.Waiting
	// Trouble is what does not work though jobs go on, and why; "": nothing.
	Trouble string
}

// Job is a job that is on nodes: it starts, runs, is suspended or ends.
type Job struct {
	ID   int
	Ends bool // by itself, already
}

// Launch reads the environment of a job's programs.
type Launch interface {
	// Nodes are those of the job, each with how many ranks it has; nil if this is no job of the scheduler's.
	Nodes(env func(string) string) (names []string, ranks []int, err error)
	// Rank is the number of this program among those on its node, and how many there are; "" if it was not started as one.
	Rank(env func(string) string) (rank, ranks string)
}

// Head is the cluster's head; by the protocol there is one, and it comes first.
func Head(config *protocol.Config) protocol.Peer {
	head, _ := lists.Find(config.Peers, func(p protocol.Peer) bool { return p.Role == protocol.Head })
	return head
}

// Until waits until a connection is accepted there. An error means that ctx has ended.
func (h Host) Until(ctx context.Context, network, address string) error {
	for began := time.Now(); ; {
		limited, cancel := context.WithTimeout(ctx, time.Second)
		err := h.Dial(limited, network, address)
		cancel()
		if err == nil {
			return nil
		}
		if err := Pause(ctx, began); err != nil {
			return err
		}
	}
}

// Pause is how long who has waited since then pauses between two looks: an eighth of that, so that a caller waits little longer
// than it must, and looks often only where it is soon over. An error means that ctx has ended.
func Pause(ctx context.Context, began time.Time) error {
	const least, most = 20 * time.Millisecond, time.Second
	return clock.Sleep(ctx, min(max(least, time.Since(began)/8), most))
}

package slurm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/drivers/scheduler"
	"muster/internal/inventory/hardware"
	"muster/internal/protocol"
)

// The daemons.
const (
	munged    = "munged"
	slurmctld = "slurmctld"
	slurmd    = "slurmd"
)

// slurmctldGrace is how long slurmctld may take to save its state when it is stopped in order.
const slurmctldGrace = 15 * time.Second

const (
	keyFile      = "/etc/munge/munge.key"
	socket       = "/run/munge/munge.socket.2"
	confFile     = "/etc/slurm/slurm.conf"
	cgroupFile   = "/etc/slurm/cgroup.conf"
	gresFile     = "/etc/slurm/gres.conf"
	topologyFile = "/etc/slurm/topology.conf"
	mpiFile      = "/etc/slurm/mpi.conf"
	stackFile    = "/etc/slurm/plugstack.conf"
	foldersFile  = "/etc/slurm/job_container.conf"
	clientFile   = "/run/muster/slurm.conf"     // on nodes, until slurmd has fetched the head's
	loginFile    = "/run/muster/login.conf"     // on the head, for programs that look for nodes' addresses in it
	nodesFile    = "/run/muster/nodes.conf"     // that it includes
	localFile    = "/run/muster/addresses.conf" // that slurm.conf includes
	groupsFile   = "/run/muster/cgroup.conf"    // that cgroup.conf includes
	stateDir     = protocol.StateDir + "/slurmctld"
	numberFile   = stateDir + "/clustername" // the name and the number of the cluster whose state it is
	spoolDir     = "/var/spool/slurmd"
	foldersDir   = "/var/spool/slurm-jobs" // of jobs, on each node
)

// Factory describes the driver.
func Factory() scheduler.Factory {
	return scheduler.Factory{
		Name:  "slurm",
		Title: "Slurm",
		Caps: scheduler.Capabilities{
			Jobs:       true,
			Controller: slurmctld,
			Late:       []string{slurmd},
			Credential: scheduler.Credential{Name: "munge", Bytes: 128}, // as long as mungekey(8) makes it
			Accounts:   []string{slurmdbd, mariadbd},
			JobRoot:    "slurmstepd",
		},
		Words:  scheduler.JobWords("Slurm"),
		Launch: launch{},
		Script: readScript,
		Acts: map[scheduler.Act]func(job string) []string{
			scheduler.Cancel:  func(job string) []string { return []string{"scancel", "-v", job} },
			scheduler.Output:  func(job string) []string { return []string{jobOutput, job} },
			scheduler.Hold:    func(job string) []string { return []string{"scontrol", "hold", job} },
			scheduler.Release: func(job string) []string { return []string{"scontrol", "release", job} },
			scheduler.Requeue: func(job string) []string { return []string{"scontrol", "requeue", job} },
		},
		Open: func(h scheduler.Host) scheduler.Driver { return open(h) },
	}
}

// driver is one boot of a node. On a head it is a scheduler.Control, too.
type driver struct {
	scheduler.Host
	Control
	local   *localPart
	limits  limits
	books   books
	records records
	keeps   bool        // accounts of jobs: decided when the head starts, as its daemons start then
	apart   bool        // see private
	unkept  atomic.Bool // the cluster file asks for accounts that are not kept
	room    *room
	slurm   version // nil: it cannot be learned, and is taken for an old one
	placed  switches
	shares  map[string]int  // what the last configuration gave for memory by queue
	usable  map[string]bool // nodes that could take jobs at the last look
	asked   requests        // of the jobs that waited then
	buried  bool            // no earlier boot of this node lives in Slurm

	longestLook time.Duration // of Tell, at the past; 0: all of it
	unread      string        // why Tell left jobs out when it last did
	light       atomic.Bool   // where no accounts are kept, Tell says what slurmctld knows of jobs that have ended
}

func open(h scheduler.Host) *driver {
	control := Control{h.Run}
	return &driver{
		Host: h, Control: control, local: &localPart{files: h.Files}, limits: limits{h.Files, control, time.Now},
		room: &room{files: h.Files}, shares: map[string]int{},
	}
}

// Prepare asks which version of Slurm the node has, and makes directories. The last thing is to make Slurm's state this cluster's
// before slurmctld starts.
func (d *driver) Prepare(ctx context.Context, config *protocol.Config) error {
	program := slurmd
	if config.Self.Role == protocol.Head {
		program = slurmctld
	}
	if err := d.askVersion(ctx, "/usr/sbin/"+program); err != nil {
		if ctx.Err() != nil {
			return err
		}
		d.Printf("%v", err)
	}
	d.local.slurm = d.slurm
	failed := errors.Join(
		d.Files.Directory("/run/munge", 0o755, "munge"),
		d.Files.Directory("/etc/munge", 0o700, "munge"),
		d.Files.Directory("/var/lib/munge", 0o711, "munge"),
		d.Files.Directory("/var/log/munge", 0o700, "munge"),
		d.Files.Directory("/run/slurm", 0o755, User),
		d.Files.Directory(spoolDir, 0o755, ""),
	)
	if config.Self.Role != protocol.Head {
		return failed
	}
	failed = errors.Join(failed, d.Files.Directory(stateDir, 0o700, User))
	if d.keeps = d.accounts(config); d.keeps {
		failed = errors.Join(failed, d.Files.Directory(path.Dir(databaseSocket), 0o700, User))
	}
	if failed != nil {
		return failed
	}
	return d.own(config)
}

// own makes Slurm's state, and its accounts, this cluster's. slurmctld refuses to start with the state of a cluster of another
// name, from whose snapshot this one was made, and with a number for the cluster that is not slurmdbd's.
func (d *driver) own(config *protocol.Config) error {
	text, err := d.Files.Read(numberFile)
	if err != nil || text == "" {
		return err
	}
	name, _, _ := strings.Cut(strings.TrimSpace(text), "|")
	if name != config.Cluster {
		if err := os.RemoveAll(d.Files.Path(databaseDir)); err != nil {
			return err
		}
	} else if !d.keeps || d.Files.Exists(databaseDir) {
		return nil
	}
	return os.Remove(d.Files.Path(numberFile))
}

// Apply writes Slurm's files.
//
// New queues have slurmctld read its file again, and its nodes theirs. Versions that do not do so right restart, which takes a
// moment, keeps nodes, drains and jobs, and lets clients wait.
func (d *driver) Apply(config *protocol.Config) (stale []scheduler.Stale, failed error) {
	put := func(name, content string, mode fs.FileMode, owner string) bool {
		changed, err := d.Files.Write(name, []byte(content), mode, owner)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("write %s: %w", name, err))
		}
		return changed
	}
	if put(keyFile, string(config.Credential), 0o400, "munge") {
		stale = append(stale, scheduler.Stale{Daemon: munged})
	}
	d.putCommands(func(name, content string) { put(name, content, 0o755, "") })
	if config.Self.Role == protocol.Compute {
		failed = errors.Join(failed, d.putHooks(put, config.Hooks))
		put(clientFile, Render(clusterOf(config)), 0o600, "")
		return stale, errors.Join(failed, d.local.want(config))
	}
	reads, first := d.slurm.placesBySwitch(), false
	if tree := RenderTopology(config.Peers, reads); tree != "" {
		put(topologyFile, tree, 0o644, "")
		first = reads && d.placed.want()
	}
	// Whether tasks are bound is no reason to restart slurmctld: it is srun who asks.
	put(localFile, RenderLocal(Local{Binds: slices.ContainsFunc(config.Peers, binds), Switches: d.placed.used}), 0o644, "")
	put(groupsFile, RenderCgroup(0), 0o644, "")
	cgroup := put(cgroupFile, cgroupConf, 0o644, "")
	put(NodeGresFile, NodeGres(nil), 0o644, "")
	gres := put(gresFile, Gres(), 0o644, "")
	cluster := clusterOf(config)
	ranks := mpiConf
	if cluster.Private = d.private(config); cluster.Private {
		ranks += mpiFolders
	}
	mpi := put(mpiFile, ranks, 0o644, "")
	stack := put(stackFile, stackConf, 0o644, "")
	put(foldersFile, jobFolders, 0o644, "")
	put(submitFile, SubmitScript, 0o644, "")
	failed = errors.Join(failed, d.room.want(config))
	failed = errors.Join(failed, d.putMail(put, config))
	cluster.Asks, cluster.Hooks, cluster.Mails = d.asks(), config.Hooks != protocol.Hooks{}, len(config.MailTo) > 0
	d.unkept.Store(asked(config) && !d.keeps)
	d.light.Store(config.Accounting != "none")
	if cluster.Accounts = d.keeps; d.keeps {
		put(databaseFile, databaseConf, 0o644, "")
		put(dbdFile, dbdConf(config.Self), 0o600, User)
		d.books.want(config)
	}
	cluster.Memory = MemoryShares(config.Queues, config.Peers, d.shares)
	maps.Copy(d.shares, cluster.Memory)
	if put(confFile, Render(cluster), 0o644, "") || cgroup || gres || mpi || stack || first {
		stale = append(stale, scheduler.Stale{Daemon: slurmctld, Reads: d.slurm.reconfigures() && !first})
	}
	cluster.Local = nodesFile
	put(nodesFile, RenderLocal(Local{Peers: config.Peers}), 0o644, "")
	put(loginFile, Render(cluster), 0o644, "")
	return stale, failed
}

// binds says that Slurm is to bind the tasks of a node's jobs to CPUs.
func binds(p protocol.Peer) bool { return p.Role == protocol.Compute && p.OwnCPUs }

// private says that each job can have folders of its own: Slurm mounts them, which nodes in namespaces may not, and what it is
// told counts for all nodes. Older versions were not tried. While there are no nodes it stays as it was.
func (d *driver) private(config *protocol.Config) bool {
	shares := func(p protocol.Peer) bool { return p.Role == protocol.Compute && !p.OwnCPUs }
	switch {
	case !d.slurm.since(24, 11), slices.ContainsFunc(config.Peers, shares):
		d.apart = false
	case slices.ContainsFunc(config.Peers, binds):
		d.apart = true
	}
	return d.apart
}

func clusterOf(config *protocol.Config) Cluster {
	head := scheduler.Head(config)
	return Cluster{
		Name: config.Cluster, Head: head.Name, HeadAddress: head.Address,
		StateDir: stateDir, SpoolDir: spoolDir, Local: localFile, Queues: config.Queues,
	}
}

// Daemons are munged, and slurmctld or slurmd.
func (d *driver) Daemons(config *protocol.Config) []scheduler.Daemon {
	daemons := []scheduler.Daemon{{
		Name: munged, Argv: []string{"/usr/sbin/munged", "--foreground"}, User: "munge",
		Noise: []string{"munged: Info:"}, // a line for each refused decoding; Slurm tries many
	}}
	if config.Self.Role == protocol.Head {
		if d.keeps {
			daemons = append(daemons, d.accountingDaemons()...)
		}
		// -i: damage to the saved state costs that state, not the cluster.
		return append(daemons, scheduler.Daemon{
			Name: slurmctld, Argv: []string{"/usr/sbin/slurmctld", "-D", "-i"}, User: User, Grace: slurmctldGrace,
			Wait:  func(ctx context.Context) error { return d.beforeSlurmctld(ctx, config) },
			Noise: []string{"Zero Bytes were transmitted"}, // nodes that knock before they start slurmd
		})
	}
	self := config.Self
	if d.Whole {
		self.CPUs = 0 // slurmd finds all that there is by itself: sockets, cores and their threads
	}
	if d.slurm.placesBySwitch() {
		self.LeafNumber = 0 // weights are for versions that fill switch after switch by them
	}
	var gpus []GPU
	if found := d.GPUs(config.Self); len(found) > 0 {
		gpus = gpusOf(found, hardware.Read(hardware.Tree(d.Files.Path("/"))).Layout)
	}
	d.buried = d.buried || config.First // there is none to bury
	tmp := "/tmp"
	if d.private(config) {
		tmp = path.Dir(foldersDir)
	}
	conf := NodeConf(self, gpus, sizeOf(d.Files.Path(tmp)))
	head := net.JoinHostPort(scheduler.Head(config).Address, strconv.Itoa(Port))
	return append(daemons, scheduler.Daemon{
		Name: slurmd, Argv: []string{"/usr/sbin/slurmd", "-D", "-Z", "--conf", conf, "--conf-server", head},
		Wait: func(ctx context.Context) error { return d.beforeSlurmd(ctx, config.Self.Name, head, gpus) },
	})
}

// sizeOf is the size of a file system in MiB, as slurmd counts that of /tmp; 0: it cannot be known.
func sizeOf(path string) int {
	var now unix.Statfs_t
	if err := unix.Statfs(path, &now); err != nil {
		return 0
	}
	return int(now.Blocks * uint64(now.Bsize) >> 20)
}

// beforeSlurmd waits for munged, for the node's acceptance, and for slurmctld, as slurmd that finds none tries again after
// 5 s only. At the first start of a boot it then declares this node's earlier boot dead: a node that comes back within
// seconds looks to Slurm as if it had never been away, and jobs that died with it would run for ever. Registering makes it
// alive again. Later starts leave the jobs alone, which outlive slurmd.
func (d *driver) beforeSlurmd(ctx context.Context, self, head string, gpus []GPU) error {
	if err := d.Home(ctx); err != nil { // without it, jobs would find their users' files gone
		return err
	}
	if _, err := d.Files.Write(NodeGresFile, []byte(NodeGres(gpus)), 0o644, ""); err != nil {
		return err
	}
	if err := d.Settled(ctx); err != nil {
		return err
	}
	if err := d.Until(ctx, "tcp", head); err != nil {
		return err
	}
	if err := d.Accepted(ctx); err != nil { // no job may start while the node is tested
		return err
	}
	if err := d.local.withhold(); err != nil {
		return err
	}
	d.Go(func() {
		for began := time.Now(); !d.Running(slurmd) || !d.Listening(NodePort); {
			if scheduler.Pause(ctx, began) != nil {
				return
			}
		}
		if err := d.local.give(); err != nil {
			d.Printf("%v", err)
		}
	})
	if d.buried {
		return nil
	}
	// slurmd has not fetched the cluster's configuration yet.
	control := Control{func(ctx context.Context, argv ...string) ([]byte, error) {
		return d.Run(ctx, append([]string{"SLURM_CONF=" + d.Files.Path(clientFile)}, argv...)...)
	}}
	err := control.Down(ctx, self, scheduler.Ours+" has a new boot")
	switch {
	case err == nil:
		d.Printf("Slurm knew an earlier boot of this node; its jobs have ended")
	case !errors.Is(err, ErrUnknown):
		d.Printf("%v", err) // no reason not to work
	}
	d.buried = true
	return ctx.Err()
}

// Settled waits for munged.
func (d *driver) Settled(ctx context.Context) error { return d.Until(ctx, "unix", socket) }

// Checks has one without a probe for slurmctld: the head's look at Slurm sets it.
func (d *driver) Checks(config *protocol.Config) []scheduler.Check {
	munge := scheduler.Check{Name: "munge", Daemon: munged, Every: time.Minute, Probe: d.probeMunge}
	if config.SharedCPUs { // many nodes may start at once on the same cores: what munged answers is tried later
		munge.First = d.accepts
	}
	if config.Self.Role == protocol.Head {
		return []scheduler.Check{munge, {Name: slurmctld}}
	}
	return []scheduler.Check{munge, {Name: slurmd, Daemon: slurmd, Every: 5 * time.Second, Probe: d.probeSlurmd}}
}

// accepts sees whether munged takes connections.
func (d *driver) accepts(ctx context.Context) error {
	if !d.Running(munged) {
		return errors.New("munged does not run")
	}
	return d.Dial(ctx, "unix", socket)
}

// probeMunge sends a credential through the daemon and back. The programs are spared while that cannot work.
func (d *driver) probeMunge(ctx context.Context) error {
	if err := d.accepts(ctx); err != nil {
		return err
	}
	_, err := d.Run(ctx, "/bin/sh", "-c", "munge -n | unmunge -o /dev/null")
	return err
}

// probeSlurmd does not connect, which slurmd would log as an error: the head sees by Slurm itself whether it answers.
func (d *driver) probeSlurmd(context.Context) error {
	if !d.Running(slurmd) {
		return errors.New("slurmd does not run")
	}
	if !d.Listening(NodePort) {
		return fmt.Errorf("slurmd does not listen on port %d", NodePort)
	}
	return nil
}

// Observe does not ask while slurmctld does not listen, which would cost a second. Nodes that can take jobs since this look
// make Slurm look at those that wait. Jobs that the submit script has held are released.
func (d *driver) Observe(ctx context.Context) (scheduler.View, error) {
	if !d.Listening(Port) {
		return scheduler.View{}, scheduler.ErrStarting
	}
	now, err := d.look(ctx, &d.asked, d.slurm)
	if err != nil {
		return scheduler.View{}, err
	}
	failed := errors.Join(d.placed.saw(ctx, d.Control, now.Nodes), d.room.saw(now.Nodes), d.release(ctx, now.held),
		d.enrol(ctx, loads))
	var fresh []string
	usable := map[string]bool{}
	for _, n := range now.Nodes {
		if !n.Usable() {
			continue
		}
		if usable[n.Name] = true; !d.usable[n.Name] {
			fresh = append(fresh, n.Name)
		}
	}
	d.usable = usable
	if len(fresh) > 0 && now.Total > 0 {
		failed = errors.Join(failed, d.Nudge(ctx, fresh))
	}
	if failed != nil && ctx.Err() == nil {
		d.Printf("%v", failed)
	}
	now.Trouble = d.unrecorded(ctx)
	return now.View, nil
}

// askVersion has a program say which version of Slurm this node has.
func (d *driver) askVersion(ctx context.Context, program string) error {
	text, err := d.run(ctx, "ask for its version", program, "-V")
	if err != nil {
		return err
	}
	if d.slurm, err = parseVersion(text); err != nil {
		return fmt.Errorf("slurm: %w", err)
	}
	return nil
}

// Remove deletes a node, declaring it dead first where jobs still hold it. They are gone a moment later, and the next call
// tries again.
func (d *driver) Remove(ctx context.Context, node string) error {
	if err := d.room.without(node); err != nil {
		return err
	}
	d.placed.without(node)
	err := d.Delete(ctx, node)
	if errors.Is(err, ErrBusy) {
		if err = d.Down(ctx, node, scheduler.Ours+" removed"); err == nil {
			err = d.Delete(ctx, node)
		}
	}
	if errors.Is(err, ErrUnknown) || errors.Is(err, ErrBusy) {
		return nil
	}
	return err
}

// Suspend takes the time limits of jobs away while their nodes sleep.
func (d *driver) Suspend(ctx context.Context) error {
	if err := d.limits.lift(ctx); err != nil {
		return fmt.Errorf("the time limits of jobs go on while they are suspended: %w", err)
	}
	return nil
}

// Awake gives them back.
func (d *driver) Awake(ctx context.Context) error { return d.limits.put(ctx) }

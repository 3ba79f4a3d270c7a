// Package serve runs the controller: it opens the database, builds the parts from the bottom up, and runs them until it is
// stopped. It is wiring alone: what a part does stands in the part's own package.
//
// What enters: the settings of `muster serve` and the site file. What leaves: listeners for users, agents and monitoring, and
// the loops of the engine, the doors and the substrates, which share one context: the first that fails ends the others.
package serve

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"muster/internal/admission"
	"muster/internal/api"
	"muster/internal/boot/images"
	"muster/internal/core"
	"muster/internal/core/sealing"
	"muster/internal/core/telemetry"
	"muster/internal/datadir"
	"muster/internal/door/console"
	"muster/internal/door/external"
	"muster/internal/door/files"
	"muster/internal/door/gateway/client"
	"muster/internal/door/login"
	"muster/internal/door/rotation"
	"muster/internal/door/terminal"
	"muster/internal/door/web"
	"muster/internal/drivers"
	"muster/internal/drivers/substrate"
	"muster/internal/hostd/calls"
	"muster/internal/identity"
	"muster/internal/inventory"
	"muster/internal/kinds"
	"muster/internal/kinds/cluster/clusterlife"
	"muster/internal/kinds/fabric/fabriclife"
	"muster/internal/kinds/life"
	"muster/internal/kinds/network/networklife"
	"muster/internal/kinds/person"
	"muster/internal/kit/clock"
	"muster/internal/kit/limit"
	"muster/internal/kit/private"
	"muster/internal/monitor"
	"muster/ui"
)

// Config is what `muster serve` was told.
type Config struct {
	Data    string // directory of all state; absolute
	DB      string // "postgres://…"; empty: SQLite in Data
	Listen  string // address of the API
	Site    string // path of the site file; empty: the built-in catalogue
	Binary  string // of this program; nodes run it as their agent
	Version string
	Log     *slog.Logger
	// LogFormat is the form of the lines of programs that log beside the controller, text or json; "": text.
	LogFormat string
	SSH       string           // address of the SSH gateway; empty: none
	SSHName   string           // host, or host:port, by which people reach it; empty: that address
	Metrics   string           // address where metrics and probes are read without a token; empty: none
	Traces    string           // where traces go: the URL of an OTLP/HTTP receiver, or a file; empty: nowhere
	Ready     func(url string) // called once, when requests are answered
	Web       web.Entrance     // the door for web apps
	// Substrates are those of the site; nil: all that there are.
	Substrates substrate.Registry
	// LocalHypervisor says that this host holds guests.
	LocalHypervisor bool
	// Divide says how many virtual functions devices of this host are to have, by their PCI addresses.
	Divide map[string]int
	// KeyFile and KeyCommand say where the key is that secrets in the database are sealed with, if it is not in Data: a file,
	// or a program that prints it. At most one of them.
	KeyFile, KeyCommand string
}

// admin is the administrator, whose token lies in the data directory.
const admin = "admin"

// sweepEvery is how often remains are looked for.
const sweepEvery = 10 * time.Second

// measureEvery is how often it is measured what clusters keep on disk.
const measureEvery = 10 * time.Minute

// sealEvery is how often secrets are sealed again that an older key has sealed.
const sealEvery = 5 * time.Second

// noteEvery is how often it is looked whether the minute has been noted.
const noteEvery = 20 * time.Second

// forgetEvery is how often old rows are deleted.
const forgetEvery = time.Hour

// controller is the parts that Run puts together.
type controller struct {
	Config
	dir       datadir.Dir
	host      string // its name
	owner     string // this controller among its replicas
	db        *core.Store
	authority *identity.Authority
	rotator   *rotation.Rotator
	images    *images.Store
	shared    calls.Host               // what makes what nodes of a cluster share: networks, /home, the state of heads
	providers map[string]life.Provider // by their substrates
	workers   []substrate.Worker
	agents    sync.WaitGroup // of this host, and who hears them
	endAgents []context.CancelFunc
	ports     *networklife.Ports
	admission *admission.Admission
	listener  net.Listener // for users
	ssh       net.Listener // for users; nil: none
	metrics   net.Listener // for monitoring; nil: none
	web       net.Listener // for users of web apps; nil: none
	telemetry *telemetry.Telemetry
	login     api.Login // nil: no person logs in
	budget    limit.Budget
	doors     *limit.Group              // of agents
	fullSince atomic.Pointer[time.Time] // nil: the data directory's disk has room
}

// Run serves until ctx ends. Nodes that run go on running: the next controller finds them.
func Run(ctx context.Context, c Config) error {
	k, err := assemble(ctx, c)
	if err != nil {
		return err
	}
	defer k.close()
	return k.run(ctx)
}

// assemble opens everything. It listens first: a controller that cannot must leave no trace in the data directory.
func assemble(ctx context.Context, c Config) (k *controller, err error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("the controller needs root: it makes namespaces and mounts")
	}
	catalogue, err := inventory.ReadCatalogue(c.Site)
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name this host: %w", err)
	}
	k = &controller{Config: c, dir: datadir.Dir(c.Data), host: host, owner: newOwner(host)}
	if catalogue.Login.Issuer != "" {
		if k.login, err = login.Open(catalogue.Login); err != nil {
			return nil, fmt.Errorf("site file %s: %w", c.Site, err)
		}
	}
	if k.listener, err = net.Listen("tcp", c.Listen); err != nil {
		return nil, fmt.Errorf("listen for users: %w", err)
	}
	opened := k
	defer func() {
		if err != nil {
			opened.close()
		}
	}()
	if k.web, err = c.Web.Open(); err != nil {
		return nil, err
	}
	if c.SSH != "" {
		if k.ssh, err = net.Listen("tcp", c.SSH); err != nil {
			return nil, fmt.Errorf("listen for SSH: %w", err)
		}
	}
	if err := k.openTelemetry(); err != nil {
		return nil, err
	}
	if err := k.openLimits(); err != nil {
		return nil, err
	}
	return k, k.open(ctx, catalogue)
}

func (k *controller) close() {
	_ = k.listener.Close()
	if k.web != nil {
		_ = k.web.Close()
	}
	if k.ssh != nil {
		_ = k.ssh.Close()
	}
	k.closeTelemetry()
	for _, end := range k.endAgents {
		end()
	}
	k.agents.Wait()
	if k.db != nil {
		_ = k.db.Close()
	}
}

// open opens the data directory, the database and the drivers.
func (k *controller) open(ctx context.Context, catalogue inventory.Catalogue) (err error) {
	if err := k.dir.Make(k.Log); err != nil {
		return err
	}
	database := k.DB
	if database == "" {
		database = k.dir.Database()
	}
	if k.db, err = kinds.Open(ctx, database, k.siteKeys()); err != nil {
		return err
	}
	k.db.Telemetry = k.telemetry
	if err := k.openAuthority(ctx, catalogue); err != nil {
		return err
	}
	if k.images, err = images.Open(k.dir.Images()); err != nil {
		return err
	}
	k.admission = &admission.Admission{Catalogue: catalogue, Images: admission.Stored{Store: k.images},
		Schedulers: drivers.Schedulers(), Substrates: k.substrates(), Short: k.short}
	k.ports = &networklife.Ports{DB: k.db, Log: k.Log, Switches: drivers.Switches()}
	return k.openSubstrates(ctx)
}

// siteKeys is where the key is that secrets in the database are sealed with.
func (k *controller) siteKeys() *sealing.Ring {
	switch {
	case k.KeyCommand != "":
		return sealing.Command(k.KeyCommand)
	case k.KeyFile != "":
		return sealing.File(k.KeyFile, false)
	}
	return sealing.File(k.dir.Key(), true)
}

// openAuthority gets the site's keys from the database, the first time making them, and sees to it that the data
// directory belongs to that store: a controller with another database would take its nodes for remains.
func (k *controller) openAuthority(ctx context.Context, catalogue inventory.Catalogue) error {
	token, err := k.dir.Token()
	if err != nil {
		return err
	}
	k.authority = &identity.Authority{}
	k.rotator = &rotation.Rotator{DB: k.db, Authority: k.authority, Log: k.Log}
	if err := k.rotator.Establish(ctx); err != nil {
		return err
	}
	var site string
	err = k.db.Update(ctx, func(tx *core.Tx) (err error) {
		// A site is known by its first authority of users, which is no secret, however often it has changed since.
		if site, err = tx.Secret(ctx, "site", k.authority.UserCA()); err != nil {
			return err
		}
		return person.Establish(ctx, tx, admin, person.HashToken(token), core.NewID("t"), catalogue.ProjectNames()...)
	})
	if err != nil {
		return err
	}
	return k.dir.BelongTo(site)
}

func (k *controller) run(ctx context.Context) error {
	fabrics := &fabriclife.Drivers{All: drivers.Fabrics(), Root: k.admission.Catalogue.Fabrics, Scratch: k.dir.Fabrics(),
		Signals: private.Dir(k.dir.Signals()), Secrets: private.Dir(k.dir.Secrets())}
	deps := life.Deps{
		Fabrics:    fabrics,
		External:   external.Door{Authority: k.authority},
		DB:         k.db,
		Shared:     k.ports.Joins(k.shared),
		Snapshots:  k.shared,
		Admission:  k.admission,
		Catalogue:  &k.admission.Catalogue,
		Schedulers: k.admission.Schedulers,
		Substrates: k.admission.Substrates,
		Authority:  k.authority,
		Telemetry:  k.telemetry,
		Power:      drivers.Power(),
		Providers:  k.providers,
	}
	watch := monitor.New(k.db, k.authority, k.owner, k.Log)
	watch.Telemetry, watch.Refresh = k.telemetry, k.rotator.Load
	watch.Schedulers, watch.Substrates = k.admission.Schedulers, k.admission.Substrates
	engine := kinds.NewEngine(k.owner, deps, k.Log)
	doors := k.agentDoors(watch)
	watch.Mail = k.admission.Catalogue.Mail
	watch.Images, watch.MostJobs = doors.Files, k.admission.Catalogue.Jobs.PerProject
	about := k.about(engine, doors)
	root, err := k.localRoot(ctx)
	if err != nil {
		return err
	}
	about.LocalRoot = root
	k.registerMetrics(engine, doors, about)
	inside := client.New(k.authority, k.Log)
	users := &api.API{
		DB:        k.db,
		Admission: k.admission,
		Authority: k.authority,
		Images:    k.images,
		Dialer:    k.shared,
		Version:   k.Version,
		Log:       k.Log,
		Drivers: api.Drivers{
			Power:      drivers.Power(),
			Switches:   drivers.Switches(),
			Substrates: k.admission.Substrates,
		},
		Login:       k.login,
		Telemetry:   k.telemetry,
		Shares:      api.NewShares(k.budget.API, k.telemetry),
		About:       about,
		SSH:         k.sshAddress(),
		Terminals:   terminal.New(inside, terminal.UsualLimits(), k.telemetry),
		Files:       files.New(inside, files.UsualLimits(), k.telemetry),
		CheckFabric: fabrics.Check,
		HomeUsage:   k.shared.HomeUsage,
		Disk:        k.disk,
		Recipes:     os.DirFS(filepath.Join(k.Data, "recipes")),
	}
	built, err := ui.Files()
	if err == nil {
		users.Console, err = console.New(built)
	}
	if err != nil {
		return err
	}
	door, err := k.newWebDoor()
	if err != nil {
		return err
	}
	if door != nil {
		users.Web = &door.Place
	}
	handler, err := users.Handler()
	if err != nil {
		return err
	}
	agents, err := datadir.Listen(k.socket(), "agents")
	if err != nil {
		return err
	}
	control, err := datadir.Listen(k.control(), "the administrator of this host")
	if err != nil {
		return errors.Join(err, agents.Close())
	}
	url := "http://" + k.listener.Addr().String()
	if err := k.dir.Announce(datadir.Announcement{URL: url, SSH: k.sshAddress(), Control: k.control()}); err != nil {
		return errors.Join(err, agents.Close(), control.Close())
	}

	if k.LocalHypervisor {
		if err := k.enrolHypervisor(ctx); err != nil {
			return errors.Join(err, agents.Close(), control.Close())
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return engine.Run(ctx) })
	group.Go(func() error { return k.rotator.Run(ctx) })
	group.Go(func() error { return k.every(ctx, sealEvery, "cannot seal secrets", k.db.Reseal) })
	for _, w := range k.workers {
		group.Go(func() error { w.Work(ctx); return nil })
	}
	clusters := clusterlife.Handlers{Deps: deps}
	group.Go(func() error { kinds.Sweep(ctx, deps, sweepEvery, k.Log); return nil })
	group.Go(func() error { clusters.WatchLimits(ctx, k.Log); return nil })
	group.Go(func() error { clusters.MeasureHomes(ctx, measureEvery, k.Log); return nil })
	group.Go(func() error { return watch.Run(ctx) })
	group.Go(func() error { return watch.Listen(ctx, monitor.ThisHost) })
	group.Go(func() error { return k.every(ctx, forgetEvery, "cannot delete old rows", k.housekeep) })
	group.Go(func() error { return k.every(ctx, noteEvery, "cannot note how many there are", k.note) })
	group.Go(func() error { return k.serveHost(ctx, agents, watch.Handler()) })
	group.Go(func() error {
		return k.gate(control, k.budget.ControlLimits()).Serve(limit.Reserved(ctx), nil, handler)
	})
	group.Go(func() error { return doors.Networks(ctx) })
	group.Go(func() error { return k.ports.Watch(ctx) })
	group.Go(func() error { return doors.Guests(ctx) })
	group.Go(func() error { return k.gate(k.listener, k.budget.APILimits()).Serve(ctx, nil, handler) })
	if door != nil {
		group.Go(func() error { return door.Run(ctx, k.gate(k.web, k.budget.WebLimits())) })
	}
	group.Go(func() error { return k.gateway().Serve(ctx, k.waysIn(inside.Door)...) })
	if k.metrics != nil {
		group.Go(func() error { return k.gate(k.metrics, k.budget.MetricsLimits()).Serve(ctx, nil, k.probes(users)) })
	}
	k.Log.Info("the controller is ready", "url", url, "site", k.admission.Catalogue.Site, "data", k.Data, "version", k.Version)
	if k.Ready != nil {
		k.Ready(url)
	}
	err = group.Wait()
	k.Log.Info("the controller has stopped; nodes keep running")
	return err
}

// every does something again and again until ctx ends. What fails is logged, and done again.
func (k *controller) every(ctx context.Context, interval time.Duration, failing string, do func(context.Context) error) error {
	for {
		if err := do(ctx); err != nil && ctx.Err() == nil {
			k.Log.Error(failing, "error", err)
		}
		if clock.Sleep(ctx, interval) != nil {
			return nil
		}
	}
}

// housekeep forgets what was kept for a while.
func (k *controller) housekeep(ctx context.Context) error {
	return k.db.Update(ctx, func(tx *core.Tx) error {
		return kinds.Forget(ctx, tx, k.admission.Catalogue.AuditKeep, k.admission.Catalogue.Jobs)
	})
}

// note keeps how many there are for the site's page, and looks whether the disk is full: an alarm says since when.
func (k *controller) note(ctx context.Context) error {
	k.short(ctx)
	return kinds.Note(ctx, k.db)
}

func newOwner(host string) string {
	var random [4]byte
	_, _ = rand.Read(random[:])
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), hex.EncodeToString(random[:]))
}

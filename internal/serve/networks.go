package serve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"muster/internal/boot/images"
	"muster/internal/boot/initramfs"
	"muster/internal/core"
	"muster/internal/drivers"
	"muster/internal/inventory"
	"muster/internal/kinds/network"
	"muster/internal/monitor"
	"muster/internal/netboot"
	"muster/internal/netboot/control"
	"muster/internal/netboot/onlink"
	"muster/internal/protocol"
)

// networks is where machines are: it runs the boot services and the agents' door on every network there is, and follows when
// networks come, change and go.
type networks struct {
	*controller
	watch *monitor.Monitor
	boots *control.Controller
	files bootFiles
	init  func() ([]byte, error) // the first stage, packed once, when the first network needs it

	mu       sync.Mutex
	troubles map[string]string // by network: why its machines are not served
}

func newNetworks(k *controller, watch *monitor.Monitor) *networks {
	files := bootFiles{images: k.images, agent: sync.OnceValues(func() (agentFile, error) { return openAgent(k.Binary) })}
	return &networks{
		controller: k, watch: watch, files: files, init: sync.OnceValues(initramfs.Archive),
		boots:    &control.Controller{DB: k.db, Authority: k.authority, Images: files, Telemetry: k.telemetry},
		troubles: map[string]string{},
	}
}

// networkLooks is how often changes of the networks are looked for that another replica made, and networkRests how long at
// least lies between two looks; serviceRetry is how long the services of a network rest after they failed.
const (
	networkLooks = 2 * time.Second
	networkRests = 100 * time.Millisecond
	serviceRetry = 2 * time.Second
)

// service is what runs for one network.
type service struct {
	network inventory.Network
	stop    context.CancelFunc
	done    chan struct{}
}

func (s service) end() {
	s.stop()
	<-s.done
}

// serve runs until ctx ends. A network whose services fail is told of and tried again; the others go on.
func (y *networks) serve(ctx context.Context) error {
	running := map[string]service{}
	defer func() {
		for _, s := range running {
			s.end()
		}
	}()
	y.db.Follow(ctx, networkRests, networkLooks, func() {
		if err := y.follow(ctx, running); err != nil && ctx.Err() == nil {
			y.Log.Error("cannot look for networks", "error", err)
		}
	})
	return nil
}

// follow makes what runs be what the database has.
func (y *networks) follow(ctx context.Context, running map[string]service) error {
	var networks []inventory.Network
	err := y.db.View(ctx, func(tx *core.Tx) (err error) {
		networks, err = network.List(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	wanted := map[string]inventory.Network{}
	for _, n := range networks {
		wanted[n.Name] = n
	}
	for name, s := range running {
		if wanted[name] != s.network {
			s.end()
			delete(running, name)
		}
		if _, still := wanted[name]; !still {
			y.forgetNeighbours(s.network)
		}
	}
	for name, n := range wanted {
		if _, runs := running[name]; runs {
			continue
		}
		if text := drivers.Switches().Warning(n); text != "" {
			y.Log.Warn(text, "network", n.Name)
		}
		within, stop := context.WithCancel(ctx)
		s := service{n, stop, make(chan struct{})}
		running[name] = s
		go func() {
			defer close(s.done)
			y.keep(within, n)
		}()
	}
	return nil
}

// forgetNeighbours takes away what the kernel was told of the machines of a network that was removed.
func (y *networks) forgetNeighbours(n inventory.Network) {
	link, err := onlink.Open(n.Namespace, n.Interface)
	if err != nil {
		return // its interface is gone, and they with it
	}
	defer link.Close()
	if err := link.Forget(); err != nil {
		y.Log.Warn("the kernel still holds addresses of a network that was removed", "network", n.Name, "error", err)
	}
}

// keep serves one network until ctx ends.
func (y *networks) keep(ctx context.Context, n inventory.Network) {
	said := ""
	defer y.trouble(n.Name, "")
	for ctx.Err() == nil {
		if err := y.network(ctx, n); err != nil && ctx.Err() == nil && err.Error() != said {
			said = err.Error()
			y.trouble(n.Name, said)
			y.Log.Error("machines of a network are not served", "network", n.Name, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(serviceRetry):
		}
	}
}

// network runs the boot services and the agents' door of one network.
func (y *networks) network(ctx context.Context, n inventory.Network) error {
	init, err := y.init()
	if err != nil {
		return err
	}
	link, err := onlink.Open(n.Namespace, n.Interface)
	if err != nil {
		return err
	}
	defer link.Close()
	plain, err := link.Listen(strings.TrimPrefix(protocol.Endpoint(n.Address.Addr()), "https://"))
	if err != nil {
		return fmt.Errorf("listen for agents: %w", err)
	}
	config, err := y.authority.ServerTLS(time.Now())
	if err != nil {
		return errors.Join(err, plain.Close())
	}
	y.trouble(n.Name, "")
	y.Log.Info("machines of a network are served", "network", n.Name, "interface", n.Interface, "mode", n.Mode)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		gate := y.doors.Limiter(plain, y.budget.AgentsLimits("agents"))
		gate.Context = onlink.WithCaller
		return gate.Serve(ctx, config, y.watch.HandlerOn(n.Name))
	})
	group.Go(func() error { return y.watch.Listen(ctx, n.Name) })
	group.Go(func() error {
		return netboot.Serve(ctx, netboot.Config{
			Network: n, Link: link, Controller: y.boots, Blobs: y.files, Init: init, Log: y.Log, Telemetry: y.telemetry,
			Firmware: []string{filepath.Join(y.Data, "ipxe"), "/usr/lib/ipxe"},
		})
	})
	return group.Wait()
}

// bootFiles are the images as machines that boot are told of them.
type bootFiles struct {
	images *images.Store
	agent  func() (agentFile, error)
}

// agentFile is this program, which becomes the agent. It stays open: while the controller runs, its path may get another one.
type agentFile struct {
	protocol.Blob
	file *os.File
}

// openAgent opens a program for as long as this process runs.
func openAgent(path string) (agentFile, error) {
	file, err := os.Open(path)
	if err != nil {
		return agentFile{}, err
	}
	a := agentFile{file: file}
	if a.Blob, err = blobOf(file); err != nil {
		file.Close()
	}
	return a, err
}

// open opens it once more, to be read from its beginning.
func (a agentFile) open() (*os.File, error) {
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", a.file.Fd()))
}

func (f bootFiles) Inspector() (string, error) {
	image, err := f.images.Get(inventory.InspectorImage)
	return image.Digest, err
}

func (f bootFiles) BootFiles(digest string) (control.Files, error) {
	image, err := f.images.Find(digest)
	if err != nil {
		return control.Files{}, err
	}
	if image.Kernel == nil || image.Drivers == nil {
		return control.Files{}, fmt.Errorf("image %s has no kernel", image.Name)
	}
	agent, err := f.agent()
	return control.Files{
		Root: protocol.Blob{Digest: image.Digest, Size: image.Size}, Agent: agent.Blob, Kernel: image.Kernel.Digest,
		Drivers: image.Drivers.Digest,
	}, err
}

// Blob opens the file of a digest: of an image, or this program, which becomes the agent.
func (f bootFiles) Blob(digest string) (netboot.Blob, error) {
	if agent, err := f.agent(); err == nil && digest == agent.Digest {
		return agent.open()
	}
	return f.images.Blob(digest)
}

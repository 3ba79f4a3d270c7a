// Package rackd is the process of a virtual rack: its QEMU machines, their network, BMCs, Wake-on-LAN and faults.
//
// What enters: the folder of a rack, with its shape, and requests at its socket. What leaves: machines that boot from the rack's
// network, answers of BMCs, the list of machines. Packages of the product do not import it: cmd/muster-rack does.
package rackd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"muster/internal/kit/netns"
	"muster/internal/rack"
)

// running is a rack that runs.
type running struct {
	folder      rack.Folder
	shape       rack.Shape
	accel       []string
	certificate string // of the BMCs, SHA-256, hexadecimal
	machines    []*machine
	log         *slog.Logger
	end         context.CancelFunc
}

// Run is the rack's process: it builds what the shape in its folder says, with all machines off, and keeps it until ctx
// ends or the rack is taken down. Disks, certificate and password that are in the folder are used again. The process is the
// rack's until it ends.
func Run(ctx context.Context, folder rack.Folder, log *slog.Logger) (err error) {
	// Folder and files are the rack's owner's alone: a console may show anything.
	unix.Umask(0o077)
	if _, err := folder.Hold(); err != nil { // who gets it next finds nothing running, not even this process
		return err
	}
	shape, err := folder.Shape()
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	r := &running{folder: folder, shape: shape, log: log, end: end}
	if err := folder.RemoveNetwork(); err != nil { // of one that was killed
		return fmt.Errorf("clear what is left of the last rack: %w", err)
	}
	defer func() {
		err = errors.Join(err, folder.RemoveNetwork())
	}()
	if r.accel, err = accelerate(ctx, shape.Accel); err != nil {
		return err
	}
	log.Info("machines run", "with", r.accel[1], "cpu", r.accel[3])
	if err := r.build(); err != nil {
		return err
	}
	defer r.powerOff()
	stop, err := r.connect(ctx)
	defer stop()
	if err != nil {
		return err
	}
	return r.serve(ctx)
}

// build makes network and machines.
func (r *running) build() error {
	plan := r.shape.Plan()
	if err := makeNetwork(r.folder.Network(r.shape.Name), plan); err != nil {
		return err
	}
	for _, m := range plan {
		built := &machine{Machine: m, shape: r.shape, folder: r.folder, accel: r.accel}
		if err := built.prepare(); err != nil {
			return err
		}
		r.machines = append(r.machines, built)
	}
	return nil
}

// connect starts what machines that are off have running: BMCs, and listeners for Wake-on-LAN. It writes the list of them.
func (r *running) connect(ctx context.Context) (stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, s := range stops {
			s()
		}
	}
	who, err := ensureCredentials(r.folder.Credentials())
	if err != nil {
		return stop, err
	}
	plan := r.shape.Plan()
	certificate, err := ensureCertificate(r.folder.Certificate(), plan)
	if err != nil {
		return stop, err
	}
	sum := sha256.Sum256(certificate.Certificate[0])
	r.certificate = hex.EncodeToString(sum[:])
	text := rack.List(r.shape.Name, r.folder.Credentials(), r.certificate, plan)
	if err := os.WriteFile(r.folder.CSV(), text, 0o600); err != nil {
		return stop, err
	}
	byMAC := map[string]*machine{}
	for _, m := range r.machines {
		var bmc func()
		switch m.Power {
		case rack.WoL:
			for _, mac := range m.MACs {
				byMAC[mac] = m
			}
			continue
		case rack.IPMI:
			bmc, err = serveIPMI(ctx, m, who)
		case rack.Redfish:
			bmc, err = serveRedfish(m, who, certificate, r.log)
		}
		if err != nil {
			return stop, err
		}
		stops = append(stops, bmc)
	}
	listeners, err := tap(r.folder.Netns(), listenersPort, "", usualQueue)
	if err != nil {
		return stop, err
	}
	if err := netns.AwaitCarrier(ctx, r.folder.Netns(), rack.Bridge); err != nil {
		listeners.Close()
		return stop, err
	}
	stops = append(stops, inBackground(func() { wake(ctx, listeners, r.log, byMAC) }, listeners.Close))
	return stop, nil
}

// serve answers at the rack's socket until ctx ends.
func (r *running) serve(ctx context.Context) error {
	path := r.folder.Socket()
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("the rack's socket: %w", err)
	}
	s := &http.Server{Handler: r.handler(), ReadHeaderTimeout: 10 * time.Second}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := s.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("the rack's socket: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = s.Shutdown(ending) // an answer that takes longer is lost
		return s.Close()
	})
	r.log.Info("rack is up", "machines", len(r.machines))
	return group.Wait()
}

func (r *running) powerOff() {
	var group sync.WaitGroup
	for _, m := range r.machines {
		group.Go(m.retire)
	}
	group.Wait()
}

// handler is the rack's own interface, for this program alone.
func (r *running) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+rack.PathState, func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, r.state()) })
	mux.HandleFunc("POST "+rack.PathEnd, func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusAccepted, object{})
		r.end()
	})
	mux.HandleFunc("POST "+rack.PathDo, func(w http.ResponseWriter, q *http.Request) {
		var request rack.Request
		if err := json.NewDecoder(q.Body).Decode(&request); err != nil {
			reply(w, http.StatusBadRequest, rack.Failure{Text: err.Error()})
			return
		}
		for _, m := range r.machines {
			if m.Name != q.PathValue("name") {
				continue
			}
			r.log.Info("by hand", "machine", m.Name, "do", q.PathValue("what"))
			if err := m.do(context.WithoutCancel(q.Context()), q.PathValue("what"), request.After); err != nil {
				reply(w, http.StatusConflict, rack.Failure{Text: m.Name + ": " + err.Error()})
				return
			}
			reply(w, http.StatusOK, m.status(r.certificate))
			return
		}
		reply(w, http.StatusNotFound, rack.Failure{})
	})
	return mux
}

func (r *running) state() rack.State {
	s := rack.State{Dir: string(r.folder), PID: os.Getpid(), Accel: r.accel[1], Shape: r.shape}
	for _, m := range r.machines {
		s.Machines = append(s.Machines, m.status(r.certificate))
	}
	return s
}

// inBackground does work that returns when what it works on is closed. To stop is to close that and wait for the work's end.
func inBackground(work func(), shut func() error) (stop func()) {
	var working sync.WaitGroup
	working.Go(work)
	return func() {
		_ = shut()
		working.Wait()
	}
}

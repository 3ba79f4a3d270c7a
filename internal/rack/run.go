package rack

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
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"muster/internal/kit/locks"
)

// rack is one that runs.
type rack struct {
	dir         string
	shape       Shape
	accel       []string
	certificate string // of the BMCs, SHA-256, hexadecimal
	machines    []*machine
	log         *slog.Logger
	end         context.CancelFunc
}

// Run is the rack's process: it builds what the shape in its folder says, with all machines off, and keeps it until ctx
// ends or Down is called. Disks, certificate and password that are in the folder are used again. The process is the rack's
// until it ends.
func Run(ctx context.Context, dir string, log *slog.Logger) (err error) {
	// Folder and files are the rack's owner's alone: a console may show anything.
	unix.Umask(0o077)
	if _, err := holdLock(dir); err != nil { // who gets it next finds nothing running, not even this process
		return err
	}
	shape, err := readShape(dir)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	r := &rack{dir: dir, shape: shape, log: log, end: end}
	if err := removeNetwork(filepath.Join(dir, netnsFile)); err != nil { // of one that was killed
		return fmt.Errorf("clear what is left of the last rack: %w", err)
	}
	defer func() {
		err = errors.Join(err, removeNetwork(filepath.Join(dir, netnsFile)))
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
func (r *rack) build() error {
	plan, namespace := r.shape.Plan(), filepath.Join(r.dir, netnsFile)
	if err := makeNetwork(namespace, plan); err != nil {
		return err
	}
	for _, m := range plan {
		built := &machine{Machine: m, shape: r.shape, dir: machineDir(r.dir, m.Name), namespace: namespace, accel: r.accel}
		if err := built.prepare(); err != nil {
			return err
		}
		r.machines = append(r.machines, built)
	}
	return nil
}

// connect starts what machines that are off have running: BMCs, and listeners for Wake-on-LAN. It writes the list of them.
func (r *rack) connect(ctx context.Context) (stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, s := range stops {
			s()
		}
	}
	who, err := ensureCredentials(filepath.Join(r.dir, credentialsFile))
	if err != nil {
		return stop, err
	}
	plan := r.shape.Plan()
	certificate, err := ensureCertificate(filepath.Join(r.dir, certificateFile), plan)
	if err != nil {
		return stop, err
	}
	sum := sha256.Sum256(certificate.Certificate[0])
	r.certificate = hex.EncodeToString(sum[:])
	text := list(r.shape.Name, filepath.Join(r.dir, credentialsFile), r.certificate, plan)
	if err := os.WriteFile(filepath.Join(r.dir, csvFile), text, 0o600); err != nil {
		return stop, err
	}
	byMAC := map[string]*machine{}
	for _, m := range r.machines {
		var bmc func()
		switch m.Power {
		case WoL:
			for _, mac := range m.MACs {
				byMAC[mac] = m
			}
			continue
		case IPMI:
			bmc, err = serveIPMI(ctx, m, who)
		case Redfish:
			bmc, err = serveRedfish(m, who, certificate, r.log)
		}
		if err != nil {
			return stop, err
		}
		stops = append(stops, bmc)
	}
	listeners, err := tap(filepath.Join(r.dir, netnsFile), listenersPort, "", usualQueue)
	if err != nil {
		return stop, err
	}
	if err := awaitCarrier(ctx, filepath.Join(r.dir, netnsFile), bridgeName); err != nil {
		listeners.Close()
		return stop, err
	}
	awake := make(chan struct{})
	go func() {
		defer close(awake)
		wake(ctx, listeners, r.log, byMAC)
	}()
	stops = append(stops, func() {
		listeners.Close()
		<-awake
	})
	return stop, nil
}

// serve answers at the rack's socket until ctx ends.
func (r *rack) serve(ctx context.Context) error {
	path := filepath.Join(r.dir, socketFile)
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

func (r *rack) powerOff() {
	var group sync.WaitGroup
	for _, m := range r.machines {
		group.Go(m.retire)
	}
	group.Wait()
}

// request is the body of a request to the rack's process.
type request struct {
	After int64 `json:"after,omitempty"`
}

// handler is the rack's own interface, for this program alone.
func (r *rack) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /rack", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, r.state()) })
	mux.HandleFunc("POST /end", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusAccepted, object{})
		r.end()
	})
	mux.HandleFunc("POST /machines/{name}/{what}", func(w http.ResponseWriter, q *http.Request) {
		var request request
		if err := json.NewDecoder(q.Body).Decode(&request); err != nil {
			reply(w, http.StatusBadRequest, failure{Text: err.Error()})
			return
		}
		for _, m := range r.machines {
			if m.Name != q.PathValue("name") {
				continue
			}
			r.log.Info("by hand", "machine", m.Name, "do", q.PathValue("what"))
			if err := m.do(context.WithoutCancel(q.Context()), q.PathValue("what"), request.After); err != nil {
				reply(w, http.StatusConflict, failure{Text: m.Name + ": " + err.Error()})
				return
			}
			reply(w, http.StatusOK, m.status(r.certificate))
			return
		}
		reply(w, http.StatusNotFound, failure{})
	})
	return mux
}

type failure struct {
	Text string `json:"error"`
}

// State is a rack and its machines as they are now.
type State struct {
	Dir      string   `json:"dir"`
	PID      int      `json:"pid"`   // of the rack's process
	Accel    string   `json:"accel"` // kvm or tcg
	Shape    Shape    `json:"shape"`
	Machines []Status `json:"machines"`
}

func (r *rack) state() State {
	s := State{Dir: r.dir, PID: os.Getpid(), Accel: r.accel[1], Shape: r.shape}
	for _, m := range r.machines {
		s.Machines = append(s.Machines, m.status(r.certificate))
	}
	return s
}

// holdLock makes this process the rack's only one, until the file descriptor is closed, or the process ends.
func holdLock(dir string) (fd int, err error) {
	path := filepath.Join(dir, lockFile)
	fd, err = unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return 0, &os.PathError{Op: "open", Path: path, Err: err}
	}
	held, err := locks.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	if held {
		return fd, nil
	}
	unix.Close(fd)
	if err == nil {
		return 0, errHeld
	}
	return 0, fmt.Errorf("lock %s: %w", path, err)
}

var errHeld = errors.New("another process runs this rack")

func readShape(dir string) (Shape, error) {
	var s Shape
	text, err := os.ReadFile(filepath.Join(dir, shapeFile))
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("%s: %w", filepath.Join(dir, shapeFile), err)
	}
	return s, s.Validate()
}

func machineDir(dir, name string) string { return filepath.Join(dir, machinesDir, name) }

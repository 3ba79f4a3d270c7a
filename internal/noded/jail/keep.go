package jail

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/kit/files"
)

const (
	restartFirst = 100 * time.Millisecond // pause before the server is started again; doubles
	restartMost  = 5 * time.Second
	steady       = 10 * time.Second // that it ran, after which the first pause is in order again
	stopGrace    = time.Second      // from SIGTERM to SIGKILL
)

// strangers is a library of the image that makes the server refuse calls in the name of users whom its passwd file does not
// have. Version 4 does so itself; an image without it is told of on the console by the loader.
const strangers = "/usr/lib/muster/nfs-users.so"

// server starts the program, with its lines on our output and nothing to read.
func server() (*os.Process, error) {
	nothing, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer nothing.Close()
	write.Close()
	return os.StartProcess("/usr/bin/ganesha.nfsd",
		[]string{"ganesha.nfsd", "-F", "-L", "STDERR", "-N", "NIV_WARN", "-f", Config, "-p", "/run/ganesha.pid"},
		&os.ProcAttr{Dir: "/", Env: []string{"PATH=/usr/bin", "LANG=C.UTF-8", "LD_PRELOAD=" + strangers},
			Files: []*os.File{nothing, os.Stdout, os.Stderr}, Sys: &syscall.SysProcAttr{Setsid: true}})
}

// keeper starts the server and knows whether it runs.
type keeper struct {
	mu      sync.Mutex
	process *os.Process // nil while it does not run
	ending  bool
}

// keep writes the files that it is given and keeps the server running from the first on. It ends, and the server with it,
// when its input does or a signal asks for it.
func keep() error {
	if number, err := strconv.Atoi(os.Getenv(readyVariable)); err == nil {
		ready := os.NewFile(uintptr(number), "ready")
		if _, err := ready.WriteString(built); err != nil {
			return err
		}
		ready.Close()
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, unix.SIGTERM, unix.SIGINT)
	signal.Ignore(unix.SIGHUP, unix.SIGPIPE)
	k, news := &keeper{}, make(chan error)
	go func() { news <- k.follow(os.Stdin) }()
	var err error
	select {
	case <-asked:
	case err = <-news:
	}
	k.end()
	return err
}

// follow reads Files until there are no more.
func (k *keeper) follow(input io.Reader) error {
	decoder := json.NewDecoder(input)
	started := false
	for {
		var files Files
		if err := decoder.Decode(&files); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read what the server is to be given: %w", err)
		}
		if err := writeAll(files); err != nil {
			return err
		}
		if !started {
			started = true
			go k.run()
			continue
		}
		k.signal(unix.SIGHUP)
	}
}

// writeAll writes files of the tree, each in one step: the server may read at any time.
func writeAll(all Files) error {
	for name, text := range all {
		if filepath.Clean(name) != name || !strings.HasPrefix(name, "/etc/") {
			return fmt.Errorf("%q is no file for the server", name)
		}
		if err := files.Replace(name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// run starts the server and starts it again until end.
func (k *keeper) run() {
	pause := restartFirst
	for {
		began := time.Now()
		p, err := k.start()
		switch {
		case p == nil && err == nil:
			return // it is to end
		case err != nil:
			fmt.Printf("did not start: %v\n", err)
		default:
			state, err := p.Wait()
			k.mu.Lock()
			k.process = nil
			ending := k.ending
			k.mu.Unlock()
			if ending {
				return
			}
			fmt.Printf("ended (%v, %v); it will be started again\n", state, err)
		}
		if time.Since(began) >= steady {
			pause = restartFirst
		}
		time.Sleep(pause)
		pause = min(2*pause, restartMost)
	}
}

func (k *keeper) start() (*os.Process, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ending {
		return nil, nil
	}
	p, err := server()
	if err != nil {
		return nil, err
	}
	k.process = p
	return p, nil
}

func (k *keeper) signal(sig syscall.Signal) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.process != nil {
		_ = k.process.Signal(sig) // one that has just ended reads the files at its next start
	}
}

// end ends the server: politely, then surely.
func (k *keeper) end() {
	k.mu.Lock()
	k.ending = true
	k.mu.Unlock()
	k.signal(unix.SIGTERM)
	for end := time.Now().Add(stopGrace); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		k.mu.Lock()
		gone := k.process == nil
		k.mu.Unlock()
		if gone {
			return
		}
	}
	k.signal(unix.SIGKILL)
}

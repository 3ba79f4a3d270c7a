// Package ibsim runs Debian's InfiniBand simulator, each instance by itself, and speaks to its ports. A fabric of it obeys
// the real opensm and the real diagnostic programs.
//
// What enters: a fabric as ibnetdiscover prints it, commands for its console. What leaves: what ports hold.
//
// What it does not do: it has no data traffic, no M_Keys, no virtual functions, and tables of 64 entries for adapters.
package ibsim

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"muster/internal/kit/wrap"
)

// TableSize is how many entries an adapter's port has for keys, whatever the real one has.
const TableSize = 64

// starting is how long the simulator may take until it listens; it reads 4000 adapters in a second.
const starting = 30 * time.Second

// Simulator is one simulated fabric. It ends with the process that started it.
type Simulator struct {
	folder  string
	name    string // of its sockets, which are abstract ones
	process *exec.Cmd
	console io.WriteCloser
	gone    chan struct{}

	mu   sync.Mutex
	said bytes.Buffer // its last words, for errors
}

// Start runs a fabric. The folder is the simulator's and its programs' own; they leave small files in it.
func Start(folder string, network []byte) (*Simulator, error) {
	file := filepath.Join(folder, "network")
	if err := os.WriteFile(file, network, 0o600); err != nil {
		return nil, fmt.Errorf("the simulated fabric: %w", err)
	}
	s := &Simulator{folder: folder, name: "muster-" + strings.ToLower(rand.Text()[:16]), gone: make(chan struct{})}
	nodes := bytes.Count(network, []byte("guid=0x")) // twice the number at least
	switches := bytes.Count(network, []byte("\nSwitch"))
	ports := 64*switches + bytes.Count(network, []byte("\n["))
	s.process = exec.Command("ibsim", "-s", "-N", fmt.Sprint(nodes+16), "-S", fmt.Sprint(switches+1), "-P", fmt.Sprint(ports+256),
		file)
	s.process.Dir = folder
	s.process.SysProcAttr = withUs()
	s.process.Env = append(os.Environ(), "IBSIM_SOCKNAME="+s.name)
	var err error
	if s.console, err = s.process.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.process.Start(); err != nil {
		return nil, fmt.Errorf("ibsim did not start; it is in Debian's package ibsim-utils: %w", err)
	}
	ready := make(chan struct{})
	go s.listen(out, ready)
	timer := time.NewTimer(starting)
	defer timer.Stop()
	select {
	case <-ready:
	case <-s.gone:
		return nil, fmt.Errorf("ibsim ended when it read the fabric: %s", s.lastWords())
	case <-timer.C:
		s.Stop()
		return nil, fmt.Errorf("ibsim did not listen within %s: %s", starting, s.lastWords())
	}
	return s, nil
}

// withUs has a process killed when this one is: a simulator without anybody at its console would compute forever.
func withUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// listen reads what the simulator says, so that it never blocks, until it ends.
func (s *Simulator) listen(out io.Reader, ready chan<- struct{}) {
	defer close(s.gone)
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		s.mu.Lock()
		if s.said.Len() > 1<<16 {
			s.said.Reset()
		}
		s.said.WriteString(line)
		s.mu.Unlock()
		if ready != nil && strings.Contains(line, "MaxMcastCap") { // the last line before it serves
			close(ready)
			ready = nil
		}
		if err != nil {
			_ = s.process.Wait() // it was told to end, or killed
			return
		}
	}
}

func (s *Simulator) lastWords() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(s.said.String()), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], "; ")
}

// Console gives the simulator a command, such as Unlink "H-0002c90300100010"[1] or ReLink with the same; it answers nothing
// that is waited for.
func (s *Simulator) Console(command string) error {
	_, err := io.WriteString(s.console, command+"\n")
	return err
}

// Environment makes a program see this fabric from a node: an adapter's is "H-" and its GUID in 16 digits. The program must
// run in the simulator's folder or in one of its own.
func (s *Simulator) Environment(node string) ([]string, error) {
	found, err := filepath.Glob("/usr/lib/*/umad2sim/libumad2sim.so")
	if err != nil || len(found) == 0 {
		return nil, errors.New("libumad2sim.so is not there; it is in Debian's package ibsim-utils")
	}
	return []string{"LD_PRELOAD=" + found[0], "IBSIM_SOCKNAME=" + s.name, "SIM_HOST=" + node}, nil
}

// Run runs a program on this fabric, in the simulator's folder, until it ends or ctx does.
func (s *Simulator) Run(ctx context.Context, node, program string, arguments ...string) ([]byte, error) {
	environment, err := s.Environment(node)
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, program, arguments...)
	c.Dir = s.folder
	c.SysProcAttr = withUs()
	c.Env = append(os.Environ(), append(environment, "OSM_CACHE_DIR="+s.folder, "OSM_TMP_DIR="+s.folder)...)
	out, err := c.Output()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return out, wrap.Errorf(err, "%s", program)
}

// Stop ends the simulator and waits until it is gone. It may be called again.
func (s *Simulator) Stop() {
	s.console.Close()
	_ = s.process.Process.Kill() // gone already is as good
	<-s.gone
}

// Package opensmtest runs the real opensm on simulated fabrics, for tests.
//
// What enters: a fabric that ibsim simulates, and a file of partitions. What leaves: a manager that a driver can tell.
package opensmtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"muster/internal/drivers/fabric/fabrictest"
	"muster/internal/drivers/fabric/opensm/ibsim"
	"muster/internal/fabric"
)

// Soon are options with which a manager on standby takes over five seconds after the one in charge has gone, instead of forty
// (opensm's man page). On a busy machine it may do so without a reason.
const Soon = "sminfo_polling_timeout 1000\npolling_retry_number 5\n"

// Manager is a real opensm on a host of a simulated fabrictest.FatTree.
type Manager struct {
	GUID        fabric.GUID
	File        string   // its partitions
	Logs        string   // what it says
	Signal      string   // a command that has it read its partitions again
	Environment []string // in which programs see the fabric from its host

	folder   string
	priority int
	mu       sync.Mutex
	process  *exec.Cmd // nil: it does not run
}

// New prepares an opensm in a folder of its own, with a file of partitions, and further options. It ends with the test. Of
// several that run the one with the highest priority, 0 to 15, is in charge.
func New(t *testing.T, s *ibsim.Simulator, folder string, host, priority int, partitions []byte, options ...string) *Manager {
	t.Helper()
	if _, err := exec.LookPath("opensm"); err != nil {
		t.Fatalf("opensm is not there; scripts/setup.sh installs it: %v", err)
	}
	environment, err := s.Environment(fmt.Sprintf("H-%016x", uint64(fabrictest.HostNode(host))))
	if err != nil {
		t.Fatal(err)
	}
	m := &Manager{
		GUID: fabrictest.HostPort(host), File: filepath.Join(folder, "partitions.conf"), Logs: filepath.Join(folder, "log"),
		Signal: "kill -HUP $(cat " + filepath.Join(folder, "pid") + ")", Environment: environment, folder: folder,
		priority: priority,
	}
	m.write(t, m.File, partitions)
	m.write(t, filepath.Join(folder, "opensm.conf"), []byte("force_log_flush TRUE\n"+strings.Join(options, "")))
	t.Cleanup(m.Kill)
	return m
}

func (m *Manager) write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Programs are infiniband-diags' real ones, each behind a few lines that have it see a simulated fabric. It returns a path of
// commands in which they come first.
func Programs(t *testing.T, folder string, environment []string) string {
	t.Helper()
	programs := filepath.Join(folder, "bin")
	if err := os.Mkdir(programs, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"ibnetdiscover", "smpquery", "sminfo"} {
		real, err := exec.LookPath(program)
		if err != nil {
			t.Fatalf("%s is not there; scripts/setup.sh installs it: %v", program, err)
		}
		script := fmt.Sprintf("#!/bin/sh\ncd %s && %s exec %s \"$@\"\n", folder, strings.Join(environment, " "), real)
		if err := os.WriteFile(filepath.Join(programs, program), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return programs + ":" + os.Getenv("PATH")
}

// Start runs it. It has not swept the fabric yet when Start returns.
func (m *Manager) Start(t *testing.T) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.process = exec.Command("opensm", "-F", filepath.Join(m.folder, "opensm.conf"), "-P", m.File, "-f", m.Logs, "-p",
		fmt.Sprint(m.priority), "-g", m.GUID.String())
	m.process.Dir = m.folder
	m.process.Env = slices.Concat(os.Environ(), m.Environment, []string{"OSM_CACHE_DIR=" + m.folder, "OSM_TMP_DIR=" + m.folder})
	m.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := m.process.Start(); err != nil {
		t.Fatal(err)
	}
	m.write(t, filepath.Join(m.folder, "pid"), []byte(fmt.Sprint(m.process.Process.Pid)))
}

// Kill ends it without a word, as a host does that loses its power; one that does not run stays so.
func (m *Manager) Kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.process == nil {
		return
	}
	_ = m.process.Process.Kill() // gone already is as good
	_ = m.process.Wait()
	m.process = nil
}

package compare_test

import (
	"crypto/ed25519"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"muster/internal/kit/testall"
	"muster/test/rig"
)

// sessionsEach is how many sessions one person holds at most, of the hundred connections that each may have.
const sessionsEach = 50

// TestCompareGatewaySessions holds many sessions at a time through the gateway, each a connection of its own with a shell at
// its end, and weighs what one costs the controller beside what it costs OpenSSH's sshd on the head.
func TestCompareGatewaySessions(t *testing.T) {
	testall.Only(t)
	held := size.sessions
	r := rig.New(t, "")
	r.Flags = []string{"--ssh", "127.0.0.1:0"}
	controller := r.Start()
	r.Run("machines", "add", "--local", "1", "--memory", "8GiB", "--wait")
	r.Run("create", "-f", r.File("cfd.yaml", "name: cfd\nqueues: [{name: cpu, max: 1}]\n"), "--wait")
	var signers []ssh.Signer
	for i := range (held + sessionsEach - 1) / sessionsEach {
		signers = append(signers, member(r, fmt.Sprintf("p%d", i)))
	}
	host, port := gatewayOf(r)
	open := func(i int) (*ssh.Client, io.WriteCloser, io.Reader, error) {
		address := net.JoinHostPort(host, port)
		conn, err := net.DialTimeout("tcp", address, time.Minute)
		if err != nil {
			return nil, nil, nil, err
		}
		_ = conn.SetDeadline(time.Now().Add(patience)) // fails only where it is closed; a session that hangs ends so
		shell, channels, requests, err := ssh.NewClientConn(conn, address, &ssh.ClientConfig{
			User: "cfd", Auth: []ssh.AuthMethod{ssh.PublicKeys(signers[i%len(signers)])},
			HostKeyCallback: ssh.InsecureIgnoreHostKey(),
		})
		if err != nil {
			return nil, nil, nil, err
		}
		client := ssh.NewClient(shell, channels, requests)
		session, err := client.NewSession()
		if err != nil {
			return client, nil, nil, err
		}
		in, err := session.StdinPipe()
		if err != nil {
			return client, nil, nil, err
		}
		out, err := session.StdoutPipe()
		if err != nil {
			return client, nil, nil, err
		}
		return client, in, out, session.Start("cat")
	}
	speak := func(in io.Writer, out io.Reader) error {
		if _, err := io.WriteString(in, "hello\n"); err != nil {
			return err
		}
		_, err := io.ReadFull(out, make([]byte, len("hello\n")))
		return err
	}
	head := r.Node("cfd", "head")
	first, in, out, err := open(0)
	if err != nil || speak(in, out) != nil {
		t.Fatal("the first session:", err)
	}
	oursBefore, theirsBefore := memory(t, controller.Process.Pid), daemons(t, head, "sshd")

	begin := time.Now()
	ins, outs := make([]io.Writer, held), make([]io.Reader, held)
	clients := make([]*ssh.Client, held)
	const atATime = 8 // sshd of the head lets ten in at a time before it throws dice (MaxStartups)
	var all sync.WaitGroup
	turn := make(chan struct{}, atATime)
	for i := range held {
		turn <- struct{}{}
		all.Go(func() {
			defer func() { <-turn }()
			var err error
			if clients[i], ins[i], outs[i], err = open(i); err != nil {
				t.Errorf("session %d: %v", i, err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	t.Logf("%d sessions were open after %.1f s", held, time.Since(begin).Seconds())
	begin = time.Now()
	for i := range held {
		all.Go(func() {
			if err := speak(ins[i], outs[i]); err != nil {
				t.Errorf("session %d does not answer: %v", i, err)
			}
		})
	}
	all.Wait()
	t.Logf("all answered within %.2f s", time.Since(begin).Seconds())
	ours, theirs := memory(t, controller.Process.Pid)-oursBefore, daemons(t, head, "sshd")-theirsBefore
	results.add(t, row{what: fmt.Sprintf("memory of a session, of %d", held), unit: "KiB", peer: "sshd of the head",
		ours: samples{ours / float64(held)}, theirs: samples{theirs / float64(held)}})
	for _, c := range append(clients, first) {
		_ = c.Close()
	}
	r.Run("delete", "cfd", "--wait")
}

// member is somebody new in the default project, and their key.
func member(r *rig.Rig, name string) ssh.Signer {
	r.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		r.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		r.Fatal(err)
	}
	r.Run("users", "add", name)
	r.Run("projects", "grant", "default", name, "member")
	theirs := r.As(strings.TrimSpace(r.Run("tokens", "add", "test", "--person", name)))
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		r.Fatal(err)
	}
	key := r.File(name, string(pem.EncodeToMemory(block)))
	if err := os.WriteFile(key+".pub", ssh.MarshalAuthorizedKey(signer.PublicKey()), 0o600); err != nil {
		r.Fatal(err)
	}
	theirs.Run("keys", "add", key+".pub")
	return signer
}

// memory is what a process alone holds, in KiB: proportional set size (proc(5), smaps_rollup).
func memory(t *testing.T, pid int) float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0 // it has ended
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "Pss:" {
			kib, err := strconv.ParseFloat(fields[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib
		}
	}
	t.Fatalf("no Pss in %s", text)
	return 0
}

// daemons is the memory of a node's processes whose names begin so, in KiB: since version 9.8 a session of sshd is sshd-session.
func daemons(t *testing.T, n rig.Node, name string) (kib float64) {
	t.Helper()
	space, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", n.PID))
	if err != nil {
		t.Fatal(err)
	}
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range processes {
		program, _ := os.ReadFile(filepath.Join(dir, "comm"))
		if there, _ := os.Readlink(filepath.Join(dir, "ns/pid")); there != space || !strings.HasPrefix(string(program), name) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			kib += memory(t, pid)
		}
	}
	return kib
}

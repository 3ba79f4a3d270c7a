package noded

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/kit/netns"
)

// reply is an NFS server's answer with these words after its length.
func reply(words ...uint32) []byte {
	text := binary.BigEndian.AppendUint32(nil, rpcLast|uint32(4*len(words)))
	for _, w := range words {
		text = binary.BigEndian.AppendUint32(text, w)
	}
	return text
}

func TestAnNFSServersAnswerIsRead(t *testing.T) {
	for name, c := range map[string]struct {
		answer []byte
		status uint32
		wrong  string
	}{
		"served":         {reply(nfsQuestion, rpcReply, 0, 0, 0, 0, 0, 0, 3), 0, ""},
		"not served":     {reply(nfsQuestion, rpcReply, 0, 0, 0, 0, nfsNoEntry), nfsNoEntry, ""},
		"with verifier":  {reply(nfsQuestion, rpcReply, 0, 1, 4, 99, 0, 13), 13, ""},
		"refused":        {reply(nfsQuestion, rpcReply, 1, 1, 5), 0, "refuses"},
		"another's":      {reply(1, rpcReply, 0, 0, 0, 0, 0), 0, "refuses"},
		"wrong version":  {reply(nfsQuestion, rpcReply, 0, 0, 0, 2, 4), 0, "RPC error 2"},
		"short":          {reply(nfsQuestion, rpcReply, 0, 0, 0, 0), 0, "too short"},
		"long verifier":  {reply(nfsQuestion, rpcReply, 0, 0, 1<<31, 0, 0), 0, "refuses"},
		"another server": {[]byte("SSH-2.0-OpenSSH"), 0, "not the answer"},
		"cut off":        {reply(nfsQuestion, rpcReply)[:6], 0, "unexpected EOF"},
	} {
		status, err := nfsStatus(bytes.NewReader(c.answer))
		if status != c.status || (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %d, %v", name, status, err)
		}
	}
}

func FuzzNFSAnswer(f *testing.F) {
	f.Add(reply(nfsQuestion, rpcReply, 0, 0, 0, 0, 0))
	f.Add(reply(nfsQuestion, rpcReply, 0, 1, 4, 99, 0, 13))
	f.Add([]byte("SSH-2.0-OpenSSH"))
	f.Fuzz(func(t *testing.T, answer []byte) {
		r := bytes.NewReader(answer)
		if _, err := nfsStatus(r); err == nil && len(answer) < 4+7*4 {
			t.Errorf("% x was enough", answer)
		}
		if read := len(answer) - r.Len(); read > 4+nfsReplyMost {
			t.Errorf("%d bytes were read", read)
		}
	})
}

func TestWhoListensButServesNoHomeIsTold(t *testing.T) {
	path := namespace(t)
	var listener net.Listener
	must(t, netns.Do(path, loopbackUp))
	listener, err := netns.Listen(path, "tcp", "127.0.0.1:2049")
	must(t, err)
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.ReadFull(conn, make([]byte, len(lookUpHome())))
			_, _ = conn.Write(reply(nfsQuestion, rpcReply, 0, 0, 0, 0, nfsNoEntry))
			conn.Close()
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = netns.Do(path, func() error { return served(ctx, "127.0.0.1") })
	if err == nil || !strings.Contains(err.Error(), "does not serve /home to this node") {
		t.Error(err)
	}
}

// TestAMachineMountsHome mounts what a real server serves, where this kernel has an NFS client.
func TestAMachineMountsHome(t *testing.T) {
	filesystems, err := os.ReadFile("/proc/filesystems")
	must(t, err)
	if !strings.Contains(string(filesystems), "nfs4") {
		t.Skip("skipped: this kernel has no NFS client; the machines of test/e2e mount what a head serves")
	}
	server, err := exec.LookPath("ganesha.nfsd")
	if err != nil {
		t.Skip("skipped: nfs-ganesha is not installed")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "muster.conf")
	must(t, os.WriteFile(file, []byte(nfsConfig("127.0.0.1", []string{"127.0.0.1"})), 0o644))
	process := exec.Command(server, "-F", "-L", "STDERR", "-f", file, "-p", filepath.Join(dir, "pid"))
	must(t, process.Start())
	t.Cleanup(func() { _ = process.Process.Kill(); _ = process.Wait() })
	at := filepath.Join(dir, "mounted")
	must(t, os.Mkdir(at, 0o755))
	for end := time.Now().Add(2 * time.Minute); served(t.Context(), "127.0.0.1") != nil && time.Now().Before(end); {
		time.Sleep(100 * time.Millisecond)
	}
	must(t, mountNFS("127.0.0.1:/home", at))
	must(t, unix.Unmount(at, 0))
}

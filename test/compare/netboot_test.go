package compare_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"muster/internal/core"
	"muster/internal/inventory"
	"muster/internal/kinds"
	"muster/internal/kinds/network"
	"muster/internal/kit/netns"
	"muster/internal/kit/testall"
	"muster/internal/netboot"
	"muster/internal/netboot/control"
)

// bootServer names the folder of a boot server in the environment of the process that is to be it.
const bootServer = "MUSTER_COMPARE_BOOT_SERVER"

// TestMain lets this program be the boot server of its own comparison, a process of its own, like its peers, and the worker of
// another one.
func TestMain(m *testing.M) {
	if dir := os.Getenv(homeVariable); dir != "" {
		w, err := workInFolder(dir)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(w.write, w.read, w.create, w.look, w.remove)
		return
	}
	dir := os.Getenv(bootServer)
	if dir == "" {
		code := m.Run()
		os.Exit(max(code, keepTable()))
	}
	if err := serveBoots(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serveBoots serves the folder's blobs and firmware, and leases of a new SQLite database in it, until it is terminated.
func serveBoots(dir string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	path := filepath.Join(dir, "muster.db")
	for _, end := range []string{"", "-wal", "-shm", ".lock"} {
		_ = os.Remove(path + end)
	}
	db, err := kinds.Open(ctx, path, nil)
	if err != nil {
		return err
	}
	defer db.Close()
	n := inventory.Network{
		Name: "rack", Namespace: filepath.Join(dir, "server"), Interface: "srv", Address: netip.MustParsePrefix("10.78.0.1/16"),
		Mode:  inventory.ModeOwn,
		First: netip.MustParseAddr("10.78.1.0"), Last: netip.MustParseAddr("10.78.255.250"), Unknown: inventory.UnknownEnrol,
		Relays: benchClient,
	}
	if err := db.Update(ctx, func(tx *core.Tx) error { return network.Put(ctx, tx, n) }); err != nil {
		return err
	}
	return netboot.Serve(ctx, netboot.Config{
		Network: n, Controller: &control.Controller{DB: db}, Blobs: folder(dir), Firmware: []string{dir},
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
}

type folder string

func (f folder) Blob(digest string) (netboot.Blob, error) {
	file, err := os.Open(filepath.Join(string(f), digest))
	if err != nil {
		return nil, err
	}
	return file, nil
}

// benchClient is the client's MAC on a bench. Boot servers know it as a relay's, which perfdhcp is: it speaks for many machines.
const benchClient = "52:54:00:00:00:02"

// bench is a server's and a client's network namespace with a cable between them.
type bench struct {
	*testing.T
	dir string
}

func newBench(t *testing.T) *bench {
	b := &bench{t, t.TempDir()}
	for _, end := range []string{"server", "client"} {
		path := filepath.Join(b.dir, end)
		if err := netns.New(path, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
	}
	b.run("server", "ip", "link", "add", "srv", "type", "veth", "peer", "name", "cli", "address",
		benchClient, "netns", filepath.Join(b.dir, "client"))
	for _, c := range []struct{ end, card, address string }{{"server", "srv", "10.78.0.1/16"},
		{"client", "cli", "10.78.0.2/16"}} {
		b.run(c.end, "ip", "addr", "add", c.address, "dev", c.card)
		b.run(c.end, "ip", "link", "set", c.card, "up")
	}
	return b
}

// command runs at one end.
func (b *bench) command(end string, args ...string) *exec.Cmd {
	return command(b, append([]string{"nsenter", "--net=" + filepath.Join(b.dir, end)}, args...)...)
}

func (b *bench) run(end string, args ...string) string {
	b.Helper()
	out, err := b.command(end, args...).CombinedOutput()
	if err != nil {
		b.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

// with runs a server while measure measures it. It is there when its socket (as ss writes it) is.
func (b *bench) with(server *exec.Cmd, socket string, measure func() float64) float64 {
	b.Helper()
	said := &bytes.Buffer{}
	server.Stdout, server.Stderr = said, said
	if err := server.Start(); err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	defer func() {
		_ = server.Process.Signal(syscall.SIGTERM)
		<-ended
	}()
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(b.run("server", "ss", "-Hlntup"),
		socket); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatalf("%v does not listen on %s:\n%s", server.Args, socket, said)
		}
	}
	return measure()
}

func (b *bench) muster() *exec.Cmd {
	c := command(b, os.Args[0])
	c.Env = append(os.Environ(), bootServer+"="+b.dir)
	return c
}

func (b *bench) file(name string, content []byte) string {
	b.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.WriteFile(path, content, 0o644); err != nil {
		b.Fatal(err)
	}
	return path
}

// TestCompareBootServices measures what many machines that boot at once want, ours and a peer's in turn.
func TestCompareBootServices(t *testing.T) {
	testall.Only(t)
	b := newBench(t)
	compareHTTP(b)
	compareDHCP(b)
	compareTFTP(b)
}

const nginxConf = `
daemon off; pid %[1]s/nginx.pid; error_log stderr; user root; worker_processes 2;
events { worker_connections 1024; }
http {
	access_log off; sendfile on; tcp_nopush on; keepalive_timeout 65; types { } default_type application/octet-stream;
	client_body_temp_path %[1]s/t1; proxy_temp_path %[1]s/t2;
	fastcgi_temp_path %[1]s/t3; uwsgi_temp_path %[1]s/t4; scgi_temp_path %[1]s/t5;
	server { listen 10.78.0.1:8080; root %[1]s; }
}`

// compareHTTP lets many clients read the same image at once.
func compareHTTP(b *bench) {
	content := randomBytes(size.blob)
	sum := sha256.Sum256(content)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	b.file(digest, content)
	conf := b.file("nginx.conf", fmt.Appendf(nil, nginxConf, b.dir))
	read := func(url string) func() float64 {
		return func() float64 {
			begin := time.Now()
			var group errgroup.Group
			for range size.readers {
				c := b.command("client", "curl", "-sSf", "-o", "/dev/null", "-w", "%{size_download}", url)
				group.Go(func() error {
					if out, err := c.Output(); err != nil || string(out) != strconv.Itoa(size.blob) {
						return fmt.Errorf("%s: %s bytes: %w", url, out, err)
					}
					return nil
				})
			}
			if err := group.Wait(); err != nil {
				b.Fatal(err)
			}
			return float64(size.readers*size.blob) / time.Since(begin).Seconds() / 1e9
		}
	}
	var ours, theirs samples
	for range size.services {
		theirs = append(theirs, b.with(b.command("server", "/usr/sbin/nginx", "-c", conf), ":8080",
			read("http://10.78.0.1:8080/"+digest)))
		ours = append(ours, b.with(b.muster(), ":8069", read("http://10.78.0.1:8069/boot/v1/blob/"+digest)))
	}
	results.add(b, row{what: fmt.Sprintf("HTTP, %d readers of %d MiB", size.readers, size.blob>>20), unit: "GB/s", peer: "nginx",
		ours: ours, theirs: theirs, bound: "at least 0.9"})
}

const keaConf = `{ "Dhcp4": {
  "interfaces-config": { "interfaces": [ "srv" ] },
  "lease-database": { "type": "memfile", "persist": true, "name": "%[1]s/kea.csv", "lfc-interval": 0 },
  "valid-lifetime": 86400,
  "multi-threading": { "enable-multi-threading": %[2]t },
  "subnet4": [ { "subnet": "10.78.0.0/16", "pools": [ { "pool": "10.78.1.0 - 10.78.255.250" } ] } ],
  "loggers": [ { "name": "kea-dhcp4", "severity": "ERROR", "output_options": [ { "output": "stdout" } ] } ]
} }`

// compareDHCP counts the leases that are given: of those that are asked for faster than either server can, and when a room full
// of machines is switched on at once. Ours are durable on disk when they are told; Kea's are in a file that is not synced.
func compareDHCP(b *bench) {
	// perfdhcp ends with 3 when answers were lost, which is the point of it. It asks for ever for machines that get no answer.
	leases := func(args ...string) func() float64 {
		return func() float64 {
			perfdhcp := append([]string{"timeout", "60", "perfdhcp", "-4", "-l", "cli"}, append(args, "10.78.0.1")...)
			out, err := b.command("client", perfdhcp...).CombinedOutput()
			found, rate := regexp.MustCompile(`Rate: ([0-9.]+) 4-way exchanges/second`).FindSubmatch(out), 0.0
			if found != nil {
				rate, _ = strconv.ParseFloat(string(found[1]), 64)
			}
			if rate == 0 {
				b.Fatalf("perfdhcp got no leases, or not all within a minute: %v\n%s", err, out)
			}
			return rate
		}
	}
	kea := func(threads bool) *exec.Cmd {
		_ = os.Remove(filepath.Join(b.dir, "kea.csv"))
		c := b.command("server", "kea-dhcp4", "-c", b.file("kea.conf", fmt.Appendf(nil, keaConf, b.dir, threads)))
		c.Env = append(os.Environ(), "KEA_LOCKFILE_DIR=none", "KEA_PIDFILE_DIR="+b.dir)
		return c
	}
	for _, load := range []struct {
		what string
		args []string
	}{
		{fmt.Sprintf("DHCP leases, %d/s asked for", size.rate),
			[]string{"-r", strconv.Itoa(size.rate), "-R", "60000", "-p", strconv.Itoa(size.seconds), "-W", "500000"}},
		{fmt.Sprintf("DHCP leases, %d machines at once", size.machines),
			[]string{"--scenario", "avalanche", "-R", strconv.Itoa(size.machines)}},
	} {
		var ours, theirs, threaded samples
		for range size.services {
			theirs = append(theirs, b.with(kea(false), ":67", leases(load.args...)))
			ours = append(ours, b.with(b.muster(), ":67", leases(load.args...)))
			threaded = append(threaded, b.with(kea(true), ":67", leases(load.args...)))
		}
		results.add(b, row{what: load.what, unit: "1/s", peer: "Kea memfile", ours: ours, theirs: theirs, bound: "at least 1"})
		results.add(b, row{what: load.what, unit: "1/s", peer: "Kea memfile, threads", ours: ours, theirs: threaded,
			bound: "at least 1"})
	}
}

// compareTFTP reads a file again and again, one block at a time, as firmware does.
func compareTFTP(b *bench) {
	b.file("ipxe.efi", randomBytes(size.boot))
	read := func() float64 {
		begin := time.Now()
		c := b.command("client", "curl", "-sS", "--tftp-blksize", "1428", "tftp://10.78.0.1/ipxe.efi")
		out, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			b.Fatal(err)
		}
		n, _ := io.Copy(io.Discard, out)
		if err := c.Wait(); err != nil || n != int64(size.boot) {
			b.Fatalf("%d bytes by TFTP: %v", n, err)
		}
		return float64(size.boot) / time.Since(begin).Seconds() / 1e6
	}
	var ours, theirs samples
	for range size.services {
		theirs = append(theirs, b.with(b.command("server", "in.tftpd", "-L", "-a", "10.78.0.1:69", "-s", b.dir), "10.78.0.1:69",
			read))
		ours = append(ours, b.with(b.muster(), "10.78.0.1%srv:69", read))
	}
	results.add(b, row{what: "TFTP, blksize 1428", unit: "MB/s", peer: "tftpd-hpa", ours: ours, theirs: theirs,
		bound: "at least 1"})
}

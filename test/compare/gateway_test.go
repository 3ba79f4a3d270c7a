package compare_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/internal/kit/netns"
	"muster/internal/kit/testall"
	"muster/test/rig"
)

// What is carried beside one large file: a tree of many small ones, as large as those of the table that this is to beat.
const (
	treeBytes  = 41 << 20 / 5000 // of each file
	treeFolder = 50              // files in each
)

// The addresses of a cluster's head and first node, inside its own network.
const (
	headAddress = "10.77.0.2"
	nodeAddress = "10.77.0.3"
)

// way is one of the ways to a cluster's head.
type way struct {
	name   string
	prefix []string // of the command: where the client runs
	host   string   // for OpenSSH's programs
	jump   string   // -J, if there is one
}

// carrier is what carries files.
type carrier struct {
	name    string
	command func(w way, config, source string) []string
}

func carriers() []carrier {
	options := func(w way, config string) []string {
		options := []string{"-F", config}
		if w.jump != "" {
			options = append(options, "-o", "ProxyJump="+w.jump)
		}
		return options
	}
	return []carrier{
		{"scp", func(w way, config, source string) []string {
			return append(append([]string{"scp", "-q", "-r"}, options(w, config)...), source, w.host+":in/")
		}},
		{"sftp", func(w way, config, source string) []string {
			command := "put -r " + source + " in/\n"
			return []string{"sh", "-c", fmt.Sprintf("printf %%s %s | sftp -q -b - %s %s", quoted(command),
				strings.Join(options(w, config), " "), w.host)}
		}},
		{"rsync", func(w way, config, source string) []string {
			return []string{"rsync", "-a", "--whole-file", "-e", strings.Join(append([]string{"ssh"}, options(w, config)...),
				" "), source, w.host + ":in/"}
		}},
	}
}

func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// roads are the ways to a cluster's head, beside each other.
type roads struct {
	t                                        *testing.T
	config                                   string
	gateway, straight, proxyJump, plainRelay way
}

// newRoads makes a cluster and all ways to its head. For the ways beside ours the client runs in the cluster's own
// network, which no user's does.
func newRoads(t *testing.T) roads {
	t.Helper()
	r := rig.New(t, "")
	r.Flags = []string{"--ssh", "127.0.0.1:0"}
	r.Start()
	r.Run("machines", "add", "--local", "2", "--wait")
	r.Run("create", "-f", r.File("cfd.yaml", "name: cfd\nnodes: 1\n"), "--wait")
	var cluster struct{ ID string }
	r.Get(&cluster, "get", "cfd")
	within := []string{"nsenter", "--net=" + filepath.Join(r.Data, "local/clusters", cluster.ID, "netns")}
	host, port := plainRelay(r)
	return roads{
		t: t, config: clientConfig(r, host, port),
		gateway:    way{"gateway", nil, "cfd@gw", ""},
		straight:   way{"straight", within, headAddress, ""},
		proxyJump:  way{"ProxyJump", within, headAddress, nodeAddress},
		plainRelay: way{"plain relay", nil, "relay", ""},
	}
}

// run is how long a command takes.
func (r roads) run(w way, argv ...string) time.Duration {
	r.t.Helper()
	argv = append(append([]string{}, w.prefix...), argv...)
	begin := time.Now()
	if out, err := command(r.t, argv...).CombinedOutput(); err != nil {
		r.t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return time.Since(begin)
}

// carry is how many seconds it takes to send a file or a tree to the head, whose folder is empty before.
func (r roads) carry(c carrier, source string) func(w way) float64 {
	return func(w way) float64 {
		r.run(r.straight, "ssh", "-F", r.config, headAddress, "rm -rf in; mkdir in; sync")
		return r.run(w, c.command(w, r.config, source)...).Seconds()
	}
}

// inTurns measures ways one after the other, again and again.
func inTurns(runs int, each func(w way) float64, ways ...way) map[string]samples {
	all := map[string]samples{}
	for range runs {
		for _, w := range ways {
			all[w.name] = append(all[w.name], each(w))
		}
	}
	return all
}

// TestCompareGatewayBulk sends one large file, and enters to do nothing.
func TestCompareGatewayBulk(t *testing.T) {
	testall.Only(t)
	r, bulk := newRoads(t), bulkFile(t)
	for _, c := range carriers() {
		carry := r.carry(c, bulk)
		large := inTurns(size.bulks, func(w way) float64 { return float64(size.bulk) / 1e6 / carry(w) }, r.gateway, r.proxyJump,
			r.straight)
		results.add(t, row{what: fmt.Sprintf("gateway, one file of %d MiB, %s", size.bulk>>20, c.name), unit: "MB/s",
			peer: "ProxyJump", ours: large["gateway"], theirs: large["ProxyJump"], bound: "at least 0.9"})
		results.add(t, row{what: "the same", unit: "MB/s", peer: "straight", ours: large["gateway"], theirs: large["straight"]})
	}
	login := inTurns(size.logins, func(w way) float64 {
		argv := []string{"ssh", "-F", r.config, w.host, "true"}
		if w.jump != "" {
			argv = []string{"ssh", "-F", r.config, "-J", w.jump, w.host, "true"}
		}
		return float64(r.run(w, argv...).Milliseconds())
	}, r.gateway, r.straight, r.proxyJump)
	results.add(t, row{what: "gateway, ssh … true", unit: "ms", peer: "straight", ours: login["gateway"],
		theirs: login["straight"]})
	results.add(t, row{what: "the same", unit: "ms", peer: "ProxyJump", ours: login["gateway"], theirs: login["ProxyJump"]})
}

// TestCompareGatewayTree sends many small files. Each waits for answers, so what counts is the time of a message there and
// back. What a relay costs at the least is seen on one that only hands bytes on, without looking at them.
func TestCompareGatewayTree(t *testing.T) {
	testall.Only(t)
	r, tree := newRoads(t), treeOf(t)
	for _, c := range carriers() {
		small := inTurns(size.trees, r.carry(c, tree), r.gateway, r.straight, r.plainRelay)
		results.add(t, row{what: fmt.Sprintf("gateway, %d files, %s", size.treeFiles, c.name), unit: "s", peer: "straight",
			ours: small["gateway"], theirs: small["straight"], bound: "at most 1.10"})
		results.add(t, row{what: "the same", unit: "s", peer: "a plain relay", ours: small["gateway"],
			theirs: small["plain relay"]})
		far := inTurns(1, r.carry(c, tree), r.proxyJump)
		results.add(t, row{what: "the same", unit: "s", peer: "ProxyJump", ours: small["gateway"], theirs: far["ProxyJump"]})
	}
}

// plainRelay hands bytes on to the head's sshd; it returns where. It dials as the gateway does: in the cluster's network.
func plainRelay(r *rig.Rig) (host, port string) {
	r.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = listener.Close() })
	head := r.Node("cfd", "head")
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			var server net.Conn
			err = netns.Do(fmt.Sprintf("/proc/%d/ns/net", head.PID), func() error {
				server, err = net.Dial("tcp", headAddress+":22")
				return err
			})
			if err != nil {
				_ = client.Close()
				continue
			}
			hand := func(to, from net.Conn) {
				buffer := make([]byte, 32<<10)
				for {
					n, err := from.Read(buffer)
					if err != nil {
						break
					}
					if _, err := to.Write(buffer[:n]); err != nil {
						break
					}
				}
				_, _ = to.Close(), from.Close()
			}
			go hand(client, server)
			go hand(server, client)
		}
	}()
	host, port, err = net.SplitHostPort(listener.Addr().String())
	if err != nil {
		r.Fatal(err)
	}
	return host, port
}

func randomBytes(n int) []byte {
	content := make([]byte, n)
	_, _ = rand.Read(content) // it never fails
	return content
}

// bulkFile is a file of random bytes, which no program can make shorter.
func bulkFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bulk")
	if err := os.WriteFile(path, randomBytes(size.bulk), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// treeOf is many small files in folders.
func treeOf(t *testing.T) string {
	t.Helper()
	tree := filepath.Join(t.TempDir(), "tree")
	for i := range size.treeFiles {
		folder := filepath.Join(tree, fmt.Sprintf("d%03d", i/treeFolder))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("f%04d", i)), randomBytes(treeBytes), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return tree
}

// clientConfig registers a key and writes a configuration of OpenSSH's client that knows the gateway as gw and the plain
// relay as relay. Ciphers are what each side prefers.
func clientConfig(r *rig.Rig, relayHost, relayPort string) string {
	r.Helper()
	dir := r.TempDir()
	key := filepath.Join(dir, "id")
	if out, err := command(r, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
		r.Fatalf("ssh-keygen: %v %s", err, out)
	}
	r.Run("keys", "add", key+".pub")
	host, port := gatewayOf(r)
	var text bytes.Buffer
	fmt.Fprintf(&text, "Host relay\nHostName %s\nPort %s\n", relayHost, relayPort)
	fmt.Fprintf(&text, "Host gw\nHostName %s\nPort %s\nHost *\nUser admin\nIdentityFile %s\nIdentitiesOnly "+
		"yes\nIdentityAgent none\n", host, port, key)
	fmt.Fprintf(&text, "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nGlobalKnownHostsFile /dev/null\nBatchMode "+
		"yes\nLogLevel ERROR\n")
	config := filepath.Join(dir, "config")
	if err := os.WriteFile(config, text.Bytes(), 0o600); err != nil {
		r.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(100 * time.Millisecond) { // until the nodes know the key
		out, err := command(r, "ssh", "-F", config, "-J", "gw", "head.cfd", "true").CombinedOutput()
		if err == nil {
			return config
		}
		if time.Now().After(deadline) {
			r.Fatalf("ssh: %v %s", err, out)
		}
	}
}

// gatewayOf is where the rig's gateway listens.
func gatewayOf(r *rig.Rig) (host, port string) {
	r.Helper()
	text, err := os.ReadFile(filepath.Join(r.Data, "controller.json"))
	var announced struct{ SSH string }
	if err == nil {
		err = json.Unmarshal(text, &announced)
	}
	if err == nil {
		host, port, err = net.SplitHostPort(announced.SSH)
	}
	if err != nil {
		r.Fatalf("where the gateway is: %v in %s", err, text)
	}
	return host, port
}

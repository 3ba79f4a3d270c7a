package compare_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/test/rig"
)

// What is carried: one large file, and a tree of many small ones, as large as those of the table that this is to beat.
const (
	bulkBytes  = 442 << 20
	treeFiles  = 5000
	treeBytes  = 41 << 20
	treeFolder = 50 // files in each
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
			return []string{"sh", "-c", fmt.Sprintf("printf %%s %s | sftp -q -b - %s %s", quoted(command), strings.Join(options(w, config), " "), w.host)}
		}},
		{"rsync", func(w way, config, source string) []string {
			return []string{"rsync", "-a", "--whole-file", "-e", strings.Join(append([]string{"ssh"}, options(w, config)...), " "), source, w.host + ":in/"}
		}},
	}
}

func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// TestCompareGateway sends the same files to a cluster's head straight, through Muster's gateway, and by OpenSSH's
// ProxyJump over sshd of a node; in turns. For the ways beside ours the client runs in the cluster's own network, which no
// user's does.
func TestCompareGateway(t *testing.T) {
	if os.Getenv("MUSTER_COMPARE") == "" {
		t.Skip("nothing is compared: `make compare` does, on a quiet machine")
	}
	results := &table{}
	r := rig.New(t, "")
	r.Flags = []string{"--ssh", "127.0.0.1:0"}
	r.Start()
	r.Run("machines", "add", "--local", "2", "--wait")
	r.Run("create", "-f", r.File("cfd.yaml", "name: cfd\nnodes: 1\n"), "--wait")
	config := clientConfig(r)
	var cluster struct{ ID string }
	r.Get(&cluster, "get", "cfd")
	within := []string{"nsenter", "--net=" + filepath.Join(r.Data, "local/clusters", cluster.ID, "netns")}
	ways := []way{
		{"gateway", nil, "cfd@gw", ""},
		{"straight", within, headAddress, ""},
		{"ProxyJump", within, headAddress, nodeAddress},
	}
	run := func(w way, argv ...string) time.Duration {
		t.Helper()
		argv = append(append([]string{}, w.prefix...), argv...)
		begin := time.Now()
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
		}
		return time.Since(begin)
	}
	inside := func(command string) { run(ways[1], "ssh", "-F", config, headAddress, command) }
	measure := func(runs int, each func(w way) float64) map[string]samples {
		all := map[string]samples{}
		for range runs {
			for _, w := range ways {
				all[w.name] = append(all[w.name], each(w))
			}
		}
		return all
	}
	bulk, tree := files(t)
	for _, c := range carriers() {
		carry := func(source string) func(w way) float64 {
			return func(w way) float64 {
				inside("rm -rf in; mkdir in; sync")
				return run(w, c.command(w, config, source)...).Seconds()
			}
		}
		large := measure(5, func(w way) float64 { return bulkBytes / 1e6 / carry(bulk)(w) })
		results.add(row{what: "gateway, one file of 442 MB, " + c.name, unit: "MB/s", peer: "ProxyJump", ours: large["gateway"], theirs: large["ProxyJump"], bound: "at least 0.9"})
		small := measure(3, carry(tree))
		results.add(row{what: "gateway, 5,000 files, " + c.name, unit: "s", peer: "straight", ours: small["gateway"], theirs: small["straight"], bound: "at most 1.10"})
		results.add(row{what: "the same", unit: "s", peer: "ProxyJump", ours: small["gateway"], theirs: small["ProxyJump"], bound: ""})
	}
	login := measure(15, func(w way) float64 {
		argv := []string{"ssh", "-F", config, w.host, "true"}
		if w.jump != "" {
			argv = []string{"ssh", "-F", config, "-J", w.jump, w.host, "true"}
		}
		return float64(run(w, argv...).Milliseconds())
	})
	results.add(row{what: "gateway, ssh … true", unit: "ms", peer: "straight", ours: login["gateway"], theirs: login["straight"], bound: ""})
	results.add(row{what: "the same", unit: "ms", peer: "ProxyJump", ours: login["gateway"], theirs: login["ProxyJump"], bound: ""})

	path := filepath.Join(rig.Root(t), "build", "compare-gateway.md")
	if err := os.WriteFile(path, []byte(results.markdown()), 0o644); err != nil {
		t.Fatal(err)
	}
	fmt.Printf("the table is in %s\n", path)
}

// files makes what is carried: random bytes, which no program can make shorter.
func files(t *testing.T) (bulk, tree string) {
	t.Helper()
	dir := t.TempDir()
	bulk, tree = filepath.Join(dir, "bulk"), filepath.Join(dir, "tree")
	content := make([]byte, bulkBytes)
	_, _ = rand.Read(content)
	if err := os.WriteFile(bulk, content, 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range treeFiles {
		folder := filepath.Join(tree, fmt.Sprintf("d%03d", i/treeFolder))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		const size = treeBytes / treeFiles
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("f%04d", i)), content[i*size:(i+1)*size], 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return bulk, tree
}

// clientConfig registers a key and writes a configuration of OpenSSH's client, the ciphers being what each side prefers.
func clientConfig(r *rig.Rig) string {
	r.Helper()
	dir := r.TempDir()
	key := filepath.Join(dir, "id")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
		r.Fatalf("ssh-keygen: %v %s", err, out)
	}
	r.Run("keys", "add", key+".pub")
	host, port := gatewayOf(r)
	var text bytes.Buffer
	fmt.Fprintf(&text, "Host gw\nHostName %s\nPort %s\nHost *\nUser admin\nIdentityFile %s\nIdentitiesOnly yes\nIdentityAgent none\n", host, port, key)
	fmt.Fprintf(&text, "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nGlobalKnownHostsFile /dev/null\nBatchMode yes\nLogLevel ERROR\n")
	config := filepath.Join(dir, "config")
	if err := os.WriteFile(config, text.Bytes(), 0o600); err != nil {
		r.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(100 * time.Millisecond) { // until the nodes know the key
		out, err := exec.Command("ssh", "-F", config, "-J", "gw", "head.cfd", "true").CombinedOutput()
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

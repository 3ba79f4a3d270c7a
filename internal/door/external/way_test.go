package external_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"muster/internal/door/external"
	"muster/internal/identity"
	externals "muster/internal/kinds/external"
)

func TestAsWhomOneGoes(t *testing.T) {
	c := externals.Cluster{Accounts: map[string]string{"mia": "m.smith"}}
	for _, one := range []struct {
		rule            externals.AccountRule
		account, person string
		want            string
	}{
		{externals.SameAccount, "", "mia", "mia"}, {externals.SharedAccount, "hpc_bio", "mia", "hpc_bio"},
		{externals.ListedAccount, "", "mia", "m.smith"}, {externals.ListedAccount, "", "max", ""},
	} {
		if got := c.Account(externals.Project{Rule: one.rule, Account: one.account}, one.person); got != one.want {
			t.Errorf("%+v: %q", one, got)
		}
	}
}

const aKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"

func TestWhatIsSaidOfAnExternalClusterIsChecked(t *testing.T) {
	good := func() externals.Cluster {
		return externals.Cluster{Login: "arc.example.org", HostKeys: []string{"arc.example.org " + aKey + " root@arc"},
			Probe: "muster",
			Projects: []externals.Project{{Project: "aero", Queues: []string{"cpu"}, Rule: externals.SharedAccount,
				Account: "hpc_aero"}}, Accounts: map[string]string{"mia": "m.smith"}}
	}
	got, err := external.Check(good())
	if err != nil || got.Login != "arc.example.org:22" || got.HostKeys[0] != aKey {
		t.Errorf("%+v %v", got, err)
	}
	for login, want := range map[string]string{"192.0.2.7:2222": "192.0.2.7:2222", "2001:db8::7": "[2001:db8::7]:22",
		"[2001:db8::7]:2222": "[2001:db8::7]:2222"} {
		c := good()
		c.Login = login
		if got, err := external.Check(c); err != nil || got.Login != want {
			t.Errorf("%s: %s %v", login, got.Login, err)
		}
	}
	for _, c := range []struct {
		want   string
		change func(*externals.Cluster)
	}{
		{"login", func(c *externals.Cluster) { c.Login = "-oProxyCommand=x" }},
		{"login", func(c *externals.Cluster) { c.Login = "arc:0" }},
		{"login", func(c *externals.Cluster) { c.Login = "" }},
		{"login", func(c *externals.Cluster) { c.Login = "arc example" }},
		{"must prove who it is", func(c *externals.Cluster) { c.HostKeys = nil }},
		{"must prove who it is", func(c *externals.Cluster) { c.HostCA = aKey }},
		{"no SSH public key", func(c *externals.Cluster) { c.HostKeys = []string{"nonsense"} }},
		{"as root", func(c *externals.Cluster) { c.Probe = "root" }},
		{"as root", func(c *externals.Cluster) { c.Projects[0].Account = "root" }},
		{"as root", func(c *externals.Cluster) { c.Accounts["mia"] = "root" }},
		{"no name of an account", func(c *externals.Cluster) { c.Accounts["mia"] = "mia smith" }},
		{"no name of a queue", func(c *externals.Cluster) { c.Projects[0].Queues = []string{""} }},
	} {
		bad := good()
		c.change(&bad)
		if _, err := external.Check(bad); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, not %q", err, c.want)
		}
	}
}

// host is an sshd that trusts the authority of external clusters, and answers every command with the same text, or runs it.
type host struct {
	home    string // of who comes: their commands are run
	address string
	key     ssh.Signer
	ca      ssh.PublicKey
	answer  string
}

func newHost(t *testing.T, a *identity.Authority, answer string) *host {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	h := &host{answer: answer}
	if h.key, err = ssh.NewSignerFromKey(private); err != nil {
		t.Fatal(err)
	}
	if h.ca, _, _, _, err = ssh.ParseAuthorizedKey([]byte(a.ExternalCA())); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	h.address = l.Addr().String()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go h.serve(conn)
		}
	}()
	return h
}

func (h *host) serve(raw net.Conn) {
	defer func() { _ = raw.Close() }()
	checker := &ssh.CertChecker{IsUserAuthority: func(key ssh.PublicKey) bool {
		return string(key.Marshal()) == string(h.ca.Marshal())
	}}
	config := &ssh.ServerConfig{PublicKeyCallback: checker.Authenticate}
	config.AddHostKey(h.key)
	conn, channels, requests, err := ssh.NewServerConn(raw, config)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	go ssh.DiscardRequests(requests)
	for c := range channels {
		channel, requests, err := c.Accept()
		if err != nil {
			return
		}
		for r := range requests {
			_ = r.Reply(r.Type == "exec", nil)
			if r.Type == "exec" {
				status := 0
				if _, _ = io.WriteString(channel, h.answer); h.home != "" {
					var line struct{ Command string }
					_ = ssh.Unmarshal(r.Payload, &line)
					c := exec.Command("bash", "-c", line.Command)
					c.Env = []string{"HOME=" + h.home, "PATH=/usr/bin:/bin"}
					c.Stdin, c.Stdout, c.Stderr = channel, channel, channel.Stderr()
					_ = c.Run()
					status = c.ProcessState.ExitCode()
				}
				_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(status)}))
				_ = channel.Close()
			}
		}
	}
}

func line(key ssh.PublicKey) string { return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))) }

func TestAskingTellsTheQueuesOrWhyThereAreNone(t *testing.T) {
	authority, err := identity.Open(identity.NewRoot())
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := identity.Open(identity.NewRoot())
	if err != nil {
		t.Fatal(err)
	}
	good := newHost(t, authority, "#muster slurm\nslurm 22.05.8\ncpu|up|3/5/1/9|64|2|257000\n")
	foreign := newHost(t, stranger, "")
	garbled := newHost(t, authority, "#muster slurm\nslurm 22.05.8\nPARTITION AVAIL\n")
	certified := newHost(t, authority, "#muster slurm\nslurm 22.05.8\ncpu|up|3/5/1/9|64|2|257000\n")
	certificate(t, certified, authority)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()

	keys := func(h *host) externals.Cluster {
		return externals.Cluster{Login: h.address, HostKeys: []string{line(h.key.PublicKey())}}
	}
	others := keys(foreign)
	others.Login = good.address
	silent := keys(good)
	silent.Login = closed.Addr().String()
	door := external.Door{Authority: authority}
	for _, c := range []struct {
		name string
		externals.Cluster
		why string
	}{
		{"good", keys(good), ""},
		{"certified", externals.Cluster{Login: certified.address, HostCA: authority.HostCA()}, ""},
		{"uncertified", externals.Cluster{Login: good.address, HostCA: authority.HostCA()}, "shows no host certificate"},
		{"another's key", others, "not the one registered: its key is SHA256:"},
		{"foreign", keys(foreign), "does not let account muster in: does its sshd trust"},
		{"garbled", keys(garbled), "not a line of sinfo"},
		{"silent", silent, "connection refused"},
	} {
		c.Cluster.Name, c.Probe = "arc", "muster"
		system, queues, err := door.Ask(t.Context(), c.Cluster)
		if c.why == "" && (err != nil || len(queues) != 1 || queues[0].Free != 5 || system != "Slurm 22.05.8") {
			t.Errorf("%s: %s, %+v, %v", c.name, system, queues, err)
		}
		if c.why != "" && (err == nil || !strings.Contains(err.Error(), c.why) || len(queues) != 0) {
			t.Errorf("%s: %v", c.name, err)
		}
	}

	target, err := external.Way(authority, keys(good), "mia", "hpc_aero")
	if err != nil {
		t.Fatal(err)
	}
	conn, _, _, err := target.Connect(t.Context())
	if err != nil || conn.User() != "hpc_aero" {
		t.Fatal(err)
	}
	_ = conn.Close()
}

// certificate gives a host's key a certificate for its address.
func certificate(t *testing.T, h *host, a *identity.Authority) {
	t.Helper()
	name, _, _ := net.SplitHostPort(h.address)
	text, err := a.CertifyHost(line(h.key.PublicKey()), []string{name}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	parsed, _, _, _, err := ssh.ParseAuthorizedKey([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if h.key, err = ssh.NewCertSigner(parsed.(*ssh.Certificate), h.key); err != nil {
		t.Fatal(err)
	}
}

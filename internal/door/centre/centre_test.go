package centre_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"io"
	"log/slog"
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"muster/internal/core"
	"muster/internal/door/centre"
	"muster/internal/identity"
	centres "muster/internal/kinds/centre"
	"muster/internal/kinds/kindstest"
)

func TestAsWhomOneGoes(t *testing.T) {
	c := centres.Centre{Accounts: map[string]string{"mia": "m.smith"}}
	for _, one := range []struct {
		rule            centres.AccountRule
		account, person string
		want            string
	}{
		{centres.SameAccount, "", "mia", "mia"}, {centres.SharedAccount, "hpc_bio", "mia", "hpc_bio"},
		{centres.ListedAccount, "", "mia", "m.smith"}, {centres.ListedAccount, "", "max", ""},
	} {
		if got := c.Account(centres.Project{Rule: one.rule, Account: one.account}, one.person); got != one.want {
			t.Errorf("%+v: %q", one, got)
		}
	}
}

const aKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"

func TestWhatIsSaidOfACentreIsChecked(t *testing.T) {
	good := func() centres.Centre {
		return centres.Centre{Login: "arc.example.org", HostKeys: []string{"arc.example.org " + aKey + " root@arc"},
			Probe: "muster",
			Projects: []centres.Project{{Project: "aero", Queues: []string{"cpu"}, Rule: centres.SharedAccount,
				Account: "hpc_aero"}}, Accounts: map[string]string{"mia": "m.smith"}}
	}
	got, err := centre.Check(good())
	if err != nil || got.Login != "arc.example.org:22" || got.HostKeys[0] != aKey {
		t.Errorf("%+v %v", got, err)
	}
	for login, want := range map[string]string{"192.0.2.7:2222": "192.0.2.7:2222", "2001:db8::7": "[2001:db8::7]:22",
		"[2001:db8::7]:2222": "[2001:db8::7]:2222"} {
		c := good()
		c.Login = login
		if got, err := centre.Check(c); err != nil || got.Login != want {
			t.Errorf("%s: %s %v", login, got.Login, err)
		}
	}
	for _, c := range []struct {
		want   string
		change func(*centres.Centre)
	}{
		{"login", func(c *centres.Centre) { c.Login = "-oProxyCommand=x" }},
		{"login", func(c *centres.Centre) { c.Login = "arc:0" }},
		{"login", func(c *centres.Centre) { c.Login = "" }},
		{"login", func(c *centres.Centre) { c.Login = "arc example" }},
		{"must prove who it is", func(c *centres.Centre) { c.HostKeys = nil }},
		{"must prove who it is", func(c *centres.Centre) { c.HostCA = aKey }},
		{"no SSH public key", func(c *centres.Centre) { c.HostKeys = []string{"nonsense"} }},
		{"as root", func(c *centres.Centre) { c.Probe = "root" }},
		{"as root", func(c *centres.Centre) { c.Projects[0].Account = "root" }},
		{"as root", func(c *centres.Centre) { c.Accounts["mia"] = "root" }},
		{"no name of an account", func(c *centres.Centre) { c.Accounts["mia"] = "mia smith" }},
		{"no name of a queue", func(c *centres.Centre) { c.Projects[0].Queues = []string{""} }},
	} {
		bad := good()
		c.change(&bad)
		if _, err := centre.Check(bad); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, not %q", err, c.want)
		}
	}
}

// host is an sshd that trusts the authority of centres, and answers every command with the same text, or runs it.
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
	if h.ca, _, _, _, err = ssh.ParseAuthorizedKey([]byte(a.CentreCA())); err != nil {
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

func TestTheWatcherTellsWhatItSeesAndWhyItSeesNothing(t *testing.T) {
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
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = nobody.Close()

	db := kindstest.Open(t, t.TempDir()+"/muster.db")
	add := func(name, login string, c centres.Centre) {
		c.Name, c.Login, c.Probe = name, login, "muster"
		if err := db.Update(t.Context(), func(tx *core.Tx) error { return centres.Add(t.Context(), tx, c) }); err != nil {
			t.Fatal(err)
		}
	}
	keys := func(h *host) centres.Centre { return centres.Centre{HostKeys: []string{line(h.key.PublicKey())}} }
	add("good", good.address, keys(good))
	add("certified", certified.address, centres.Centre{HostCA: authority.HostCA()})
	add("uncertified", good.address, centres.Centre{HostCA: authority.HostCA()})
	add("stranger", good.address, keys(foreign))
	add("foreign", foreign.address, keys(foreign))
	add("garbled", garbled.address, keys(garbled))
	add("nobody", nobody.Addr().String(), keys(good))

	ctx, stop := context.WithCancel(t.Context())
	watching := make(chan error)
	go func() {
		watching <- (&centre.Watcher{DB: db, Authority: authority, Log: slog.New(slog.DiscardHandler)}).Run(ctx)
	}()
	defer func() {
		stop()
		if err := <-watching; err != nil {
			t.Error(err)
		}
	}()
	var all []centres.Centre
	for unseen := true; unseen; time.Sleep(10 * time.Millisecond) {
		if err := db.View(t.Context(), func(tx *core.Tx) (err error) {
			all, err = centres.List(t.Context(), tx)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		unseen = slices.ContainsFunc(all, func(c centres.Centre) bool { return c.LookedAt.IsZero() })
	}
	reasons := map[string]string{
		"good": "", "certified": "", "uncertified": "shows no host certificate",
		"stranger": "not the one registered: its key is SHA256:",
		"foreign":  "does not let account muster in: does its sshd trust", "garbled": "not a line of sinfo",
		"nobody": "connection refused",
	}
	for _, c := range all {
		want := reasons[c.Name]
		if want == "" && (c.Reason != "" || len(c.Queues) != 1 || c.Queues[0].Free != 5 || c.System != "Slurm 22.05.8" ||
			!c.LostAt.IsZero()) {
			t.Errorf("%+v", c)
		}
		if want != "" && (!strings.Contains(c.Reason, want) || c.LostAt.IsZero() || !c.SeenAt.IsZero()) {
			t.Errorf("%s: %q, since %s", c.Name, c.Reason, c.LostAt)
		}
	}

	target, err := centre.Way(authority, all[slices.IndexFunc(all, func(c centres.Centre) bool {
		return c.Name == "good"
	})], "mia", "hpc_aero")
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

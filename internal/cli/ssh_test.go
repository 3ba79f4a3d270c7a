package cli

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	apiv1 "muster/api/v1"
)

func newSigner(t *testing.T) ssh.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

func certify(t *testing.T, ca ssh.Signer, key ssh.PublicKey, kind uint32, principal string) *ssh.Certificate {
	t.Helper()
	now := time.Now()
	c := &ssh.Certificate{
		Key: key, CertType: kind, ValidPrincipals: []string{principal},
		ValidAfter: uint64(now.Add(-time.Minute).Unix()), ValidBefore: uint64(now.Add(time.Minute).Unix()),
	}
	if err := c.SignCert(rand.Reader, ca); err != nil {
		t.Error(err)
	}
	return c
}

// door is a cluster's head as far as ssh sees it: it repeats its input after the command, and exits with code 7.
type door struct {
	users, hosts ssh.Signer // authorities
	config       *ssh.ServerConfig
}

func newDoor(t *testing.T, name string) *door {
	t.Helper()
	d := &door{users: newSigner(t), hosts: newSigner(t)}
	checker := ssh.CertChecker{IsUserAuthority: func(k ssh.PublicKey) bool {
		return bytes.Equal(k.Marshal(), d.users.PublicKey().Marshal())
	}}
	d.config = &ssh.ServerConfig{PublicKeyCallback: checker.Authenticate}
	key := newSigner(t)
	host, err := ssh.NewCertSigner(certify(t, d.hosts, key.PublicKey(), ssh.HostCert, name), key)
	if err != nil {
		t.Fatal(err)
	}
	d.config.AddHostKey(host)
	return d
}

func (d *door) serve(conn net.Conn) {
	_, channels, requests, err := ssh.NewServerConn(conn, d.config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for opened := range channels {
		channel, asked, err := opened.Accept()
		if err != nil {
			return
		}
		for request := range asked {
			_ = request.Reply(request.Type == "exec", nil)
			if request.Type != "exec" {
				continue
			}
			_, _ = channel.Write(append(request.Payload[4:], '\n'))
			_, _ = io.Copy(channel, channel)
			_, _ = channel.SendRequest("exit-status", false, binary.BigEndian.AppendUint32(nil, 7))
			_ = channel.Close()
		}
	}
}

// serveDoor puts what `muster ssh` needs on a site.
func (s *site) serveDoor(t *testing.T, d *door) {
	s.answers("GET /v1/clusters/hello", 200, newLife("hello").now())
	s.HandleFunc("POST /v1/clusters/hello/certificate", func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		var body struct {
			PublicKey string `json:"public_key"`
		}
		if err := decode(text, &body); err != nil {
			t.Error(err)
		}
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(body.PublicKey))
		if err != nil {
			t.Error(err)
			return
		}
		reply(w, 200, apiv1.Certificate{
			Certificate: string(ssh.MarshalAuthorizedKey(certify(t, d.users, key, ssh.UserCert, "alice"))),
			Account:     "alice", Head: "head", HostCA: string(ssh.MarshalAuthorizedKey(d.hosts.PublicKey())),
		})
	})
	s.HandleFunc("GET /v1/clusters/hello/tunnel", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != apiv1.TunnelProtocol {
			tellProblem(w, apiv1.Problem{Status: http.StatusUpgradeRequired, Code: "invalid"})
			return
		}
		d.serve(hijack(t, w))
	})
}

// hijack answers 101 and gives the connection.
func hijack(t *testing.T, w http.ResponseWriter) net.Conn {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return nil
	}
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+apiv1.TunnelProtocol+
		"\r\n\r\n")
	return conn
}

func TestSSHEntersByWayOfTheController(t *testing.T) {
	if _, err := exec.LookPath("ssh"); err != nil {
		t.Skip("not tested: there is no ssh here")
	}
	t.Setenv("MUSTER_TEST_PROGRAM", "1") // for the ProxyCommand
	left := t.TempDir()
	t.Setenv("TMPDIR", left)

	t.Run("and passes input, output and exit code", func(t *testing.T) {
		s := newSite(t)
		s.serveDoor(t, newDoor(t, "head.hello"))
		r := musterWith(t, brisk(), "some input", "ssh", "hello", "--", "srun", "-N", "3", "hostname")
		if r.code != 7 || r.out != "srun -N 3 hostname\nsome input" || r.err != "" {
			t.Errorf("exit code %d\nstdout: %q\nstderr: %s", r.code, r.out, r.err)
		}
	})
	t.Run("but not a node of another cluster", func(t *testing.T) {
		s := newSite(t)
		s.serveDoor(t, newDoor(t, "head.other"))
		muster(t, "ssh", "hello", "true").wants(t, 255, "Host key verification failed")
	})
	t.Run("and not a node that is not there", func(t *testing.T) {
		s := newSite(t)
		s.serveDoor(t, newDoor(t, "head.hello"))
		muster(t, "ssh", "hello:n9", "true").wants(t, exitNotFound, `has no node "n9"`)
	})
	if files, _ := os.ReadDir(left); len(files) > 0 {
		t.Errorf("left behind: %v", files)
	}
}

func TestSSHReadsNothingOfTheUsersAndShowsNoSecret(t *testing.T) {
	s := newSite(t)
	s.serveDoor(t, newDoor(t, "head.hello"))
	bin := t.TempDir()
	script := "#!/bin/sh\nprintf '%s\\n' \"$@\"\necho \"token=$MUSTER_TOKEN\"\nkill -TERM $$\n"
	if err := os.WriteFile(filepath.Join(bin, "ssh"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":/usr/bin:/bin")
	r := muster(t, "ssh", "hello", "date")
	r.wants(t, 128+15, "-F\n/dev/null\n", "IdentitiesOnly=yes", "IdentityAgent=none", "StrictHostKeyChecking=yes",
		"HostKeyAlias=head.hello", "\n--\nhead\ndate\n", "token="+testToken)
	if strings.Count(r.out, testToken) != 1 {
		t.Errorf("the token is among the arguments:\n%s", r.out)
	}
}

func TestSSHThatIsMissingIsSaid(t *testing.T) {
	newSite(t)
	t.Setenv("PATH", t.TempDir())
	muster(t, "ssh", "hello").wants(t, exitOther, "ssh is not installed", "openssh-client")
}

func TestTheProxyCommandSurvivesAnyPath(t *testing.T) {
	got := proxyCommand("/opt/it's 100%/muster", "hello", "head")
	if want := `'/opt/it'\''s 100%%/muster' 'tunnel' '--' 'hello' 'head'`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestATunnelIsClosedOneDirectionAtATime(t *testing.T) {
	s := newSite(t)
	s.HandleFunc("GET /v1/clusters/hello/tunnel", func(w http.ResponseWriter, r *http.Request) {
		conn := hijack(t, w)
		defer func() { _ = conn.Close() }()
		sent, _ := io.ReadAll(conn) // returns only when the client has closed its direction
		_, _ = io.WriteString(conn, r.URL.Query().Get("node")+" got "+string(sent))
	})
	r := musterWith(t, brisk(), "all of it", "tunnel", "hello", "n1")
	if r.code != 0 || r.out != "n1 got all of it" {
		t.Errorf("exit code %d, %q, %s", r.code, r.out, r.err)
	}
}

func TestATunnelThatIsRefusedSaysWhy(t *testing.T) {
	s := newSite(t)
	s.HandleFunc("GET /v1/clusters/hello/tunnel", func(w http.ResponseWriter, _ *http.Request) {
		tellProblem(w, apiv1.Problem{Status: http.StatusConflict, Code: "conflict",
			Detail: "cluster hello does not accept logins now: provisioning"})
	})
	muster(t, "tunnel", "hello").wants(t, exitConflict, "error: cluster hello does not accept logins now: provisioning\n")
}

func TestATunnelEndsWithItsUser(t *testing.T) {
	s := newSite(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.HandleFunc("GET /v1/clusters/hello/tunnel", func(w http.ResponseWriter, _ *http.Request) {
		conn := hijack(t, w)
		_, _ = conn.Read(make([]byte, 1)) // it is a tunnel to the client, too
		cancel()
		_, _ = io.Copy(io.Discard, conn)
	})
	silent, _ := io.Pipe()
	musterUntil(ctx, brisk(), io.MultiReader(strings.NewReader("x"), silent), "tunnel", "hello").wants(t, 0)
}

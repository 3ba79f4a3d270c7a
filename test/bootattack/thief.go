// Package bootattack has what root and others on a machine can do to the boots of its neighbours, for tests: hosts on a
// segment, and acts that a process there does as the user that it is.
package bootattack

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/kit/netns"
	"muster/internal/protocol"
)

// Variable makes a process of the test's own program do an Act, read from standard input: see Main.
const Variable = "MUSTER_BOOTATTACK"

// Act is one thing that an attacker does.
type Act struct {
	Do     string // http, join, known, udp, frame
	Source string // address that it is done from; "" any
	Local  int    // UDP port that it is sent from; 0 any
	Device string // that it leaves by; "" any

	Method, URL, Body, Authorization string // http
	Join                             protocol.JoinRequest
	Findings                         *protocol.Findings // delivered after a join that worked
	Path                             string             // asked for by GET after a join that worked
	Certificate, Key                 string             // known: PEM, shown instead of a join

	To   string // udp: HOST:PORT
	Data []byte // udp: a packet; frame: a frame with its Ethernet header
}

// Result is what came of it.
type Result struct {
	Status int    // of HTTP
	Text   string // body
	Then   int    // status of the findings, or of the path
	More   string
	Error  string
}

// Main is to be called first in TestMain: it ends the process if it is one that acts.
func Main() {
	if os.Getenv(Variable) == "" {
		return
	}
	var all []Act
	if err := json.NewDecoder(os.Stdin).Decode(&all); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	results := make([]Result, len(all))
	for i, a := range all {
		results[i] = a.run()
	}
	_ = json.NewEncoder(os.Stdout).Encode(results)
	os.Exit(0)
}

// Nobody is a user without any right.
const Nobody = 65534

// As does acts in a network namespace as a user, who has no capabilities unless it is root.
func As(ns string, uid int, acts ...Act) ([]Result, error) {
	in, err := json.Marshal(acts)
	if err != nil {
		return nil, err
	}
	path, err := program()
	if err != nil {
		return nil, err
	}
	var out, said bytes.Buffer
	c := exec.Command(path)
	c.Env, c.Dir, c.Stdin, c.Stdout, c.Stderr = []string{Variable + "=1"}, "/", bytes.NewReader(in), &out, &said
	if uid != 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid),
			Groups: []uint32{}}}
	}
	if err := netns.Do(ns, c.Start); err != nil {
		return nil, err
	}
	if err := c.Wait(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, said.String())
	}
	var results []Result
	return results, json.Unmarshal(out.Bytes(), &results)
}

// program is a copy of this test's program where `nobody` may not read its own folder.
func program() (string, error) {
	own, err := os.Stat("/proc/self/exe")
	if err != nil {
		return "", err
	}
	path := fmt.Sprintf("%s/muster-bootattack-%d-%d", os.TempDir(), own.Size(), own.ModTime().UnixNano())
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	text, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return "", err
	}
	fresh := fmt.Sprintf("%s.%d", path, os.Getpid())
	if err := os.WriteFile(fresh, text, 0o755); err != nil {
		return "", err
	}
	return path, os.Rename(fresh, path)
}

func (a Act) run() Result {
	var r Result
	var err error
	switch a.Do {
	case "http":
		r.Status, r.Text, err = a.ask(a.client(nil), a.Method, a.URL, []byte(a.Body))
	case "join":
		r, err = a.join()
	case "known":
		r, err = a.known()
	case "udp":
		err = a.udp()
	case "frame":
		err = a.frame()
	default:
		err = fmt.Errorf("nobody can do %q", a.Do)
	}
	if err != nil {
		r.Error = err.Error()
	}
	return r
}

// dialer goes out from the source.
func (a Act) dialer() *net.Dialer {
	d := &net.Dialer{Timeout: 2 * time.Minute} // the controller may look for it where a thief was: it asks there for some seconds
	if a.Source != "" {                        // a request from an address that is not its own may wait for ever
		d.Timeout = time.Second
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(a.Source)}
	}
	return d
}

func (a Act) client(config *tls.Config) *http.Client {
	return &http.Client{Timeout: a.dialer().Timeout + 2*time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, to string) (net.Conn, error) {
			return a.dialer().DialContext(ctx, network, to)
		},
		TLSClientConfig: config,
	}}
}

func (a Act) ask(c *http.Client, method, url string, body []byte) (int, string, error) {
	request, err := http.NewRequest(method, url, bytes.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	if a.Authorization != "" {
		request.Header.Set("Authorization", a.Authorization)
	}
	response, err := c.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	return response.StatusCode, string(text), err
}

// join becomes an agent, if it is let in, and then does what one may.
func (a Act) join() (r Result, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return r, err
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return r, err
	}
	a.Join.CSR = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr}))
	a.Join.HostKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGtXJcXcUSZxLbyw9L7DYZbIYxB3bYkIFE7Gkjx0oQ1X"
	body, err := json.Marshal(a.Join)
	if err != nil {
		return r, err
	}
	base := strings.TrimSuffix(a.URL, "/")
	if r.Status, r.Text, err = a.ask(a.client(&tls.Config{InsecureSkipVerify: true}), http.MethodPost, base+"/agent/v1/join",
		body); err != nil || r.Status != http.StatusOK {
		return r, err
	}
	var reply protocol.JoinReply
	if err := json.Unmarshal([]byte(r.Text), &reply); err != nil {
		return r, err
	}
	block, _ := pem.Decode([]byte(reply.Certificate))
	if block == nil {
		return r, fmt.Errorf("no certificate in %q", reply.Certificate)
	}
	certificate := tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key}
	known := a.client(&tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{certificate}})
	if a.Findings != nil {
		text, err := json.Marshal(a.Findings)
		if err != nil {
			return r, err
		}
		r.Then, r.More, err = a.ask(known, http.MethodPost, base+"/agent/v1/findings", text)
		return r, err
	}
	if a.Path != "" {
		r.Then, r.More, err = a.ask(known, http.MethodGet, base+a.Path, nil)
	}
	return r, err
}

// known asks with a certificate, and delivers findings with it.
func (a Act) known() (r Result, err error) {
	pair, err := tls.X509KeyPair([]byte(a.Certificate), []byte(a.Key))
	if err != nil {
		return r, err
	}
	c := a.client(&tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}})
	if r.Status, r.Text, err = a.ask(c, http.MethodGet, a.URL+a.Path, nil); err != nil {
		return r, err
	}
	text, err := json.Marshal(a.Findings)
	if err != nil {
		return r, err
	}
	r.Then, r.More, err = a.ask(c, http.MethodPost, a.URL+"/agent/v1/findings", text)
	return r, err
}

// udp sends a packet from an ordinary socket.
func (a Act) udp() error {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		outer := raw.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_BROADCAST, 1)
			if err == nil && a.Device != "" {
				err = unix.BindToDevice(int(fd), a.Device)
			}
		})
		if outer != nil {
			return outer
		}
		return err
	}}
	conn, err := config.ListenPacket(context.Background(), "udp4", fmt.Sprintf("%s:%d", a.Source, a.Local))
	if err != nil {
		return err
	}
	defer conn.Close()
	to, err := net.ResolveUDPAddr("udp4", a.To)
	if err != nil {
		return err
	}
	_, err = conn.WriteTo(a.Data, to)
	return err
}

// frame sends what root alone can.
func (a Act) frame() error {
	card, err := net.InterfaceByName(a.Device)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Sendto(fd, a.Data, 0, &unix.SockaddrLinklayer{Ifindex: card.Index, Halen: 6})
}

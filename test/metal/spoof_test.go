package metal_test

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
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"muster/internal/kit/netns"
	"muster/internal/protocol"
)

// intruder is a client on the rack's network that is no machine of it.
func (y *testbed) intruder() *http.Client {
	namespace := y.Data + "-rack/netns"
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return netns.Dial(ctx, namespace, network, address)
		},
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // it does not care who it robs
	}}
}

// script is what a client that claims a MAC is told to boot; "" while there is no answer.
func (y *testbed) script(mac string) string {
	y.Helper()
	response, err := y.intruder().Get("http://10.78.0.1:8069/boot/v1/script?mac=" + mac)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		y.Fatal(err)
	}
	return string(text)
}

// join tries to become the agent of a boot, and returns the answer's status.
func (y *testbed) join(r protocol.JoinRequest) int {
	y.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		y.Fatal(err)
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		y.Fatal(err)
	}
	r.CSR = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr}))
	r.HostKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGtXJcXcUSZxLbyw9L7DYZbIYxB3bYkIFE7Gkjx0oQ1X"
	body, err := json.Marshal(r)
	if err != nil {
		y.Fatal(err)
	}
	response, err := y.intruder().Post("https://10.78.0.1:7421/agent/v1/join", "application/json", bytes.NewReader(body))
	if err != nil {
		y.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

var tokenForm = regexp.MustCompile(`muster\.token=(\S+)`)

// robbed is run while the machine boots for its inspection: an intruder on its network, who knows its MAC, learns nothing,
// and opens nothing.
func (y *testbed) robbed(t *testing.T, name string) {
	m := y.machine(name)
	refused := 0
	y.Eventually(10*time.Minute, name+" has its script, and an intruder has not", func() bool {
		script := y.script(m.MACs[0])
		if tokenForm.MatchString(script) {
			t.Fatalf("an intruder gets the script of %s:\n%s", name, script)
		}
		if strings.Contains(script, "this is for another machine") {
			refused++
		}
		now := y.machine(name)
		return strings.Contains(now.Reason, "first stage") || strings.Contains(now.Reason, "has its") &&
			strings.Contains(now.Reason, "kernel") || now.Phase == "available"
	})
	if refused == 0 {
		t.Error("the intruder was never told that the script is not for him")
	}
	response, err := y.intruder().Get("http://10.78.0.1:8069/boot/v1/plan?mac=" + m.MACs[0])
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusForbidden {
		t.Errorf("an intruder who asks for the plan is told %s", response.Status)
	}
	made := protocol.JoinRequest{Node: m.ID, Boot: 1, Token: strings.Repeat("A", 43)}
	if status := y.join(made); status != http.StatusForbidden && status != http.StatusBadRequest {
		t.Errorf("a made-up token: status %d", status)
	}
}

// nothingToSteal is run while the machine is off.
func (y *testbed) nothingToSteal(t *testing.T, name string) {
	if script := y.script(y.machine(name).MACs[0]); script == "" || tokenForm.MatchString(script) {
		t.Errorf("%s is off, and whoever has its MAC gets\n%s", name, script)
	}
	if script := y.script("52:54:00:ff:ff:ff"); script == "" || tokenForm.MatchString(script) {
		t.Errorf("nobody's MAC gets\n%s", script)
	}
}

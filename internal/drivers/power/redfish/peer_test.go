package redfish_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"muster/internal/drivers/power"
	"muster/internal/drivers/power/powertest"
	"muster/internal/drivers/power/redfish"
	"muster/internal/kit/netns"
)

const (
	user     = powertest.User
	password = powertest.Password
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, target power.Target) power.Driver {
	t.Helper()
	return powertest.Open(t, redfish.Factory(), "", target)
}

func TestItKeepsTheContract(t *testing.T) {
	for name, peer := range map[string]func(*testing.T) powertest.Peer{
		"our own service": fakeRedfishPeer, "sushy-tools": sushyPeer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			powertest.Test(t, redfish.Factory(), peer)
		})
	}
}

// bmcService is a Redfish service of one vendor. What it holds against a client is what that vendor's was seen to.
type bmcService struct {
	vendor, product, maker string

	ifMatch      int    // status of a PATCH without If-Match; 0: it is not needed
	etagSuffix   string // added to the ETag header; the body then has none
	settings     string // path of the settings resource, where alone Boot can be written
	announced    bool   // the settings resource is named by @Redfish.Settings
	forgetsMode  bool   // a PATCH without BootSourceOverrideMode sets it to Legacy
	noPXE        bool
	resetTypes   []string
	accounts     []map[string]any // of its AccountService; nil: it has none
	ldap         bool
	busyOnRepeat bool // switching to what is already so is an error

	mutex   sync.Mutex
	on      bool
	version int
	boot    map[string]string
	asked   []string // methods and paths
	refused int      // PATCHes
}

const systemPath = "/redfish/v1/Systems/Self"

func (b *bmcService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.asked = append(b.asked, r.Method+" "+r.URL.Path)
	if r.URL.Path == "/redfish/v1/" {
		answer(w, map[string]any{"@odata.id": "/redfish/v1/", "Vendor": b.vendor, "Product": b.product,
			"Systems": link("/redfish/v1/Systems")})
		return
	}
	if u, p, _ := r.BasicAuth(); u != user || p != password {
		// It repeats what it was sent, as a careless service may.
		refuse(w, http.StatusUnauthorized, "no access for "+u+" with "+p+" in "+r.Header.Get("Authorization"))
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	if b.serveAccounts(w, r.URL.Path) {
		return
	}
	switch key := r.Method + " " + r.URL.Path; key {
	case "GET /redfish/v1/Systems":
		answer(w, map[string]any{"Members": []any{link(systemPath)}})
	case "GET " + systemPath:
		b.show(w)
	case "GET " + b.settings:
		b.show(w)
	case "PATCH " + systemPath:
		if b.settings != "" {
			b.refused++
			refuse(w, http.StatusBadRequest, "The property Boot is a read only property and cannot be assigned a value.")
			return
		}
		b.patch(w, r, body)
	case "PATCH " + b.settings:
		b.patch(w, r, body)
	case "POST " + systemPath + "/Actions/ComputerSystem.Reset":
		b.reset(w, r, body)
	default:
		refuse(w, http.StatusNotFound, "no "+key)
	}
}

func (b *bmcService) show(w http.ResponseWriter) {
	targets := []string{"None", "Pxe", "Hdd"}
	if b.noPXE {
		targets = []string{"None", "Hdd"}
	}
	system := map[string]any{
		"@odata.id": systemPath, "Manufacturer": b.maker, "Model": "M1",
		"PowerState": map[bool]string{true: "On", false: "Off"}[b.on],
		// Real services have properties of the wrong type; this one is not read.
		"ProcessorSummary": "two",
		"Boot": map[string]any{
			"BootSourceOverrideMode":                           b.boot["BootSourceOverrideMode"],
			"BootSourceOverrideTarget@Redfish.AllowableValues": targets,
		},
		"Actions": map[string]any{"#ComputerSystem.Reset": map[string]any{
			"target": systemPath + "/Actions/ComputerSystem.Reset", "ResetType@Redfish.AllowableValues": b.resetTypes,
		}},
	}
	if b.announced {
		system["@Redfish.Settings"] = map[string]any{"SettingsObject": link(b.settings)}
	}
	if b.etagSuffix == "" {
		system["@odata.etag"] = b.etag("")
	}
	w.Header().Set("ETag", b.etag(b.etagSuffix))
	answer(w, system)
}

func (b *bmcService) etag(suffix string) string { return fmt.Sprintf(`"v%d%s"`, b.version, suffix) }

func (b *bmcService) patch(w http.ResponseWriter, r *http.Request, body []byte) {
	given := r.Header.Get("If-Match")
	switch {
	case given == "" && b.ifMatch != 0:
		b.refused++
		refuse(w, b.ifMatch, "The request did not provide the required precondition, such as an If-Match or If-None-Match "+
			"header.")
		return
	case given != "" && given != b.etag(""):
		b.refused++
		refuse(w, http.StatusPreconditionFailed, "The ETag supplied did not match the ETag required to change this resource.")
		return
	}
	var change struct{ Boot map[string]string }
	if err := json.Unmarshal(body, &change); err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	for key := range change.Boot {
		if !slices.Contains([]string{"BootSourceOverrideTarget", "BootSourceOverrideEnabled", "BootSourceOverrideMode"}, key) {
			refuse(w, http.StatusBadRequest, "no property "+key)
			return
		}
	}
	if b.forgetsMode {
		b.boot["BootSourceOverrideMode"] = "Legacy"
	}
	for key, value := range change.Boot {
		b.boot[key] = value
	}
	b.version++
	w.WriteHeader(http.StatusNoContent)
}

func (b *bmcService) reset(w http.ResponseWriter, r *http.Request, body []byte) {
	if r.Header.Get("If-Match") != "" {
		refuse(w, http.StatusPreconditionFailed, "The ETag supplied did not match the ETag required to change this resource.")
		return
	}
	var action struct{ ResetType string }
	if err := json.Unmarshal(body, &action); err != nil || b.resetTypes != nil &&
		!slices.Contains(b.resetTypes, action.ResetType) {
		refuse(w, http.StatusBadRequest, "no reset of that type")
		return
	}
	on := strings.HasSuffix(action.ResetType, "On")
	if b.busyOnRepeat && on == b.on {
		refuse(w, http.StatusConflict, "The server is already in that state.")
		return
	}
	b.on = on
	b.version++
	w.WriteHeader(http.StatusNoContent)
}

func answer(w http.ResponseWriter, what any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(what)
}

func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{
		"code": "Base.1.0.GeneralError", "message": "see below", "@Message.ExtendedInfo": []any{map[string]any{"Message": why}},
	}})
}

func link(path string) map[string]string { return map[string]string{"@odata.id": path} }

// serve runs a Redfish service in a namespace and returns the control that reaches it.
func serve(t *testing.T, space string, h http.Handler) string {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Listener.Close()
	var err error
	if s.Listener, err = netns.Listen(space, "tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that the client breaks off are part of the tests
	s.StartTLS()
	t.Cleanup(s.Close)
	return fmt.Sprintf("redfish://%s?certificate=sha256:%x", s.Listener.Addr(), sha256.Sum256(s.Certificate().Raw))
}

func newService() *bmcService {
	return &bmcService{boot: map[string]string{"BootSourceOverrideMode": "UEFI"}}
}

// bootsOnce says whether the service was asked for one boot by PXE that keeps the mode.
func (b *bmcService) bootsOnce() error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.boot["BootSourceOverrideTarget"] != "Pxe" || b.boot["BootSourceOverrideEnabled"] != "Once" ||
		b.boot["BootSourceOverrideMode"] != "UEFI" {
		return fmt.Errorf("the service understood %v", b.boot)
	}
	return nil
}

func fakeRedfishPeer(t *testing.T) powertest.Peer {
	space := powertest.Namespace(t)
	b := newService()
	b.busyOnRepeat = true
	return powertest.Peer{
		Target: powertest.Target(space, serve(t, space, b), powertest.Secret(t)),
		Dead:   powertest.Target(space, "redfish://"+silentTCP(t, space), powertest.Secret(t)),
		Boots:  b.bootsOnce,
	}
}

// silentTCP takes connections and says nothing.
func silentTCP(t *testing.T, space string) string {
	t.Helper()
	l, err := netns.Listen(space, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// sushyPeer is the Redfish emulator of OpenStack's sushy-tools with its fake machine.
func sushyPeer(t *testing.T) powertest.Peer {
	python, err := filepath.Abs("../../../../build/venv/bin/python")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(python), "sushy-emulator")); err != nil {
		t.Skip("skipped: sushy-tools is not installed; `make test` does that")
	}
	space, dir := powertest.Namespace(t), t.TempDir()
	pin := selfSigned(t, dir)
	// The fake machine takes 1 to 11 s to switch, by chance. Here chance always says 1.
	c := exec.Command(python, "-c", `
import bcrypt, os, random, sys
random.randint = lambda low, high: low
with open("users", "wb") as f:
    f.write(b"`+user+`:" + bcrypt.hashpw(sys.stdin.readline().rstrip("\n").encode(), bcrypt.gensalt(4)))
from sushy_tools.emulator.main import main
main()`, "--config", "config", "--fake", "-i", "127.0.0.1", "-p", "8000", "--ssl-certificate", "cert.pem", "--ssl-key", "key.pem")
	c.Dir = dir
	c.Stdin = strings.NewReader(password + "\n")
	powertest.Write(t, filepath.Join(dir, "users"), 0o600, "")
	powertest.Write(t, filepath.Join(dir, "config"), 0o600,
		fmt.Sprintf("SUSHY_EMULATOR_AUTH_FILE = %q\nSUSHY_EMULATOR_STATE_DIR = %q\n", filepath.Join(dir, "users"), dir))
	powertest.Start(t, space, c)
	control := fmt.Sprintf("redfish://127.0.0.1:8000?certificate=sha256:%x", pin)
	p := powertest.Peer{
		Target: powertest.Target(space, control, powertest.Secret(t)),
		Dead:   powertest.Target(space, "redfish://"+silentTCP(t, space), powertest.Secret(t)),
		Boots:  func() error { return sushyBootsByPXE(space) },
	}
	powertest.Answers(t, open(t, p.Target))
	return p
}

// sushyBootsByPXE asks the emulator without the driver. It knows no override for one boot only.
func sushyBootsByPXE(space string) error {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return netns.Dial(ctx, space, network, address)
		},
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true,
	}
	request, err := http.NewRequest(http.MethodGet,
		"https://127.0.0.1:8000/redfish/v1/Systems/27946b59-9e44-4fa7-8e91-f3527a1ef094", nil)
	if err != nil {
		return err
	}
	request.SetBasicAuth(user, password)
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var system struct {
		Boot struct{ BootSourceOverrideTarget string }
	}
	if err := json.NewDecoder(response.Body).Decode(&system); err != nil || system.Boot.BootSourceOverrideTarget != "Pxe" {
		return fmt.Errorf("the emulator's machine boots from %q: %w", system.Boot.BootSourceOverrideTarget, err)
	}
	return nil
}

// selfSigned writes cert.pem and key.pem of a service and returns the certificate's pin.
func selfSigned(t *testing.T, dir string) [sha256.Size]byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bmc"},
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	powertest.Write(t, filepath.Join(dir, "cert.pem"), 0o600,
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})))
	powertest.Write(t, filepath.Join(dir, "key.pem"), 0o600,
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})))
	return sha256.Sum256(cert)
}

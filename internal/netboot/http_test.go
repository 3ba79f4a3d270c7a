package netboot

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/internal/inventory"
	"muster/internal/netboot/onlink"
	"muster/internal/protocol"
)

func get(s *server, target string, headers ...string) *httptest.ResponseRecorder {
	return do(s, http.MethodGet, target, "", headers...)
}

func do(s *server, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequest(method, target, strings.NewReader(body))
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	s.handler().ServeHTTP(w, r.WithContext(onlink.With(r.Context(), onlink.Caller{Sender: hardware("52:54:00:00:00:99")})))
	return w
}

const wantedScript = `#!ipxe
kernel --name kernel http://10.78.0.1:8069/boot/v1/kernel/sha256:ce?mac=52:54:00:00:00:01 initrd=initrd muster.server=http://10.78.0.1:8069 muster.mac=52:54:00:00:00:01 muster.address=10.78.0.11/16 muster.token=one-time console=ttyS1 nomodeset || goto again
initrd --name initrd http://10.78.0.1:8069/boot/v1/initramfs/sha256:d1?mac=52:54:00:00:00:01 || goto again
boot || goto again
:again
echo Muster: this boot failed; once more in 5 s
sleep 5
imgfree
chain --replace --autofree http://10.78.0.1:8069/boot/v1/script?mac=52:54:00:00:00:01 || goto again
`

func TestTheScriptBootsAsTheProtocolSays(t *testing.T) {
	controller := newController(bootMAC)
	controller.leases[bootMAC] = netip.MustParseAddr("10.78.0.11")
	controller.boot = BootConfig{Kernel: "sha256:ce", Drivers: "sha256:d1", Token: "one-time",
		Arguments: "console=ttyS1  nomodeset"}
	s := newServer(t, inventory.ModeOwn, controller)
	w := get(s, scriptPath+"?mac=52-54-00-00-00-01")
	if w.Code != http.StatusOK || w.Body.String() != wantedScript {
		t.Errorf("%d:\n%s", w.Code, w.Body)
	}
	if cache := w.Header().Get("Cache-Control"); cache != "no-store" {
		t.Errorf("a secret may be cached: %q", cache)
	}
	if note := <-s.notes; note.Step != protocol.StepScript || note.MAC != bootMAC {
		t.Errorf("noted: %+v", note)
	}
}

func TestTheScriptLeavesOutWhatThereIsNot(t *testing.T) {
	controller := newController(bootMAC)
	controller.boot = BootConfig{Kernel: "sha256:ce"}
	text := get(newServer(t, inventory.ModeProxy, controller), scriptPath+"?mac="+bootMAC).Body.String()
	for _, absent := range []string{"muster.token", "muster.address"} {
		if strings.Contains(text, absent) {
			t.Errorf("%s is in\n%s", absent, text)
		}
	}
	for _, there := range []string{initramfsPath + "none?", defaultArguments} {
		if !strings.Contains(text, there) {
			t.Errorf("%s is not in\n%s", there, text)
		}
	}
}

func TestArgumentsCannotSayAnythingToIPXE(t *testing.T) {
	for _, arguments := range []string{"a || shell", "a\x00b", "${net0/mac}", "a && b", `a "b`, "ünicode",
		strings.Repeat("a", 2048)} {
		controller := newController(bootMAC)
		controller.boot = BootConfig{Kernel: "sha256:ce", Arguments: arguments}
		log := &bytes.Buffer{}
		s := newServer(t, inventory.ModeOwn, controller)
		s.Log = slog.New(slog.NewTextHandler(log, nil))
		if w := get(s, scriptPath+"?mac="+bootMAC); w.Code != http.StatusServiceUnavailable {
			t.Errorf("%.20q: %d %s", arguments, w.Code, w.Body)
		}
		if !strings.Contains(log.String(), "kernel arguments") {
			t.Errorf("%.20q: the operator is not told: %s", arguments, log)
		}
	}
	// A new line is only white space, as everywhere between arguments.
	controller := newController(bootMAC)
	controller.boot = BootConfig{Kernel: "sha256:ce", Arguments: "quiet\nshell"}
	if text := get(newServer(t, inventory.ModeOwn, controller), scriptPath+"?mac="+bootMAC).
		Body.String(); !strings.Contains(text, "quiet shell ||") {
		t.Error(text)
	}
}

func TestRequestsAreAnsweredByWhatTheyAre(t *testing.T) {
	proof := "Boot " + proofOfToken
	report := func(step string) string { return fmt.Sprintf(`{"mac":%q,"step":%q}`, bootMAC, step) }
	enrol := func(macs, facts string) string {
		return fmt.Sprintf(`{"macs":[%s],"facts":%q}`, macs, base64.StdEncoding.EncodeToString([]byte(facts)))
	}
	digest := "sha256:" + strings.Repeat("0", 64)
	for _, c := range []struct {
		method, target, body, authorization string
		want                                int
	}{
		{"GET", scriptPath, "", "", 200},
		{"GET", scriptPath + "?mac=", "", "", 400},
		{"GET", scriptPath + "?mac=52:54:00:00:00", "", "", 400},
		{"GET", scriptPath + "?mac=53:54:00:00:00:01", "", "", 400}, // a group
		{"GET", scriptPath + "?mac=00:00:00:00:00:00", "", "", 400},
		{"GET", scriptPath + "?mac=5254.0000.0001", "", "", 400},
		{"GET", scriptPath + "?mac=52:54:00:00:00:99", "", "", 404}, // a stranger
		{"POST", scriptPath, "", "", 405},
		{"GET", protocol.PlanPath + "?mac=" + bootMAC, "", "", 200},
		{"GET", protocol.PlanPath + "?mac=52:54:00:00:00:02", "", "", 404}, // nothing to boot
		{"GET", protocol.PlanPath + "?mac=52:54:00:00:00:99", "", "", 404},
		{"GET", protocol.PlanPath, "", "", 400},
		{"GET", protocol.BlobPath + digest, "", "", 404},
		{"GET", protocol.BlobPath + "sha256:1", "", "", 400},
		{"GET", protocol.BlobPath + "..%2f..%2fetc%2fpasswd", "", "", 400},
		{"GET", kernelPath + digest, "", "", 404},
		{"GET", initramfsPath + digest, "", "", 404},
		{"GET", initramfsPath + "none", "", "", 200},
		{"GET", firmwarePath + "shadow", "", "", 404},
		{"GET", firmwarePath + "..%2fsecret", "", "", 404},
		{"POST", protocol.ProgressPath, report("init"), proof, 204},
		{"POST", protocol.ProgressPath, report("init"), "", 403},
		{"POST", protocol.ProgressPath, report("init"), "Boot " + strings.Repeat("0", 64), 403},
		{"POST", protocol.ProgressPath, report("init"), "Boot one-time", 401},
		{"POST", protocol.ProgressPath, report("root"), "Bearer " + proofOfToken, 401},
		{"POST", protocol.ProgressPath, report("agent"), proof, 400},
		{"POST", protocol.ProgressPath, report("script"), proof, 400},
		{"POST", protocol.ProgressPath, `{"mac":"x","step":"init"}`, proof, 400},
		{"POST", protocol.ProgressPath, `{"mac":"` + bootMAC + `","step":"init","took":-1}`, proof, 400},
		{"POST", protocol.ProgressPath, `[]`, proof, 400},
		{"POST", protocol.ProgressPath, `{"detail":"` + strings.Repeat("x", progressLimit) + `"}`, proof, 413},
		{"POST", protocol.EnrolPath, enrol(`"52:54:00:00:00:99"`, `{}`), "", 204},
		{"POST", protocol.EnrolPath, enrol(`"52:54:00:00:00:98"`, `{}`), "", 403}, // somebody else
		{"POST", protocol.EnrolPath, enrol(``, `{}`), "", 400},
		{"POST", protocol.EnrolPath, enrol(`"eth0"`, `{}`), "", 400},
		{"POST", protocol.EnrolPath, enrol(`"52:54:00:00:00:99"`, `{`), "", 400},
		{"POST", protocol.EnrolPath, enrol(`"52:54:00:00:00:99"`, `"`+strings.Repeat("x", factsLimit)+`"`), "", 400},
		{"POST", protocol.EnrolPath, strings.Repeat(" ", enrolLimit+1), "", 413},
		{"GET", "/", "", "", 404},
		{"GET", "/boot/v1/blob/../../../etc/passwd", "", "", 307},
	} {
		controller := newController(bootMAC)
		controller.known["52:54:00:00:00:02"] = false
		controller.boot.Kernel = digest
		s := newServer(t, inventory.ModeOwn, controller)
		s.Blobs = newFolder(t)
		if w := do(s, c.method, c.target, c.body, "Authorization", c.authorization); w.Code != c.want {
			t.Errorf("%s %.80s %.80s (%s): %d, not %d: %s", c.method, c.target, c.body, c.authorization, w.Code, c.want, w.Body)
		}
	}
}

func TestWhatMachinesSayIsKeptShortAndPrintable(t *testing.T) {
	controller := newController(bootMAC)
	body, err := json.Marshal(protocol.BootProgress{MAC: strings.ToUpper(bootMAC), Step: protocol.StepProblem,
		Detail: "a\x1b[31m\u202e" + strings.Repeat("é", 400)})
	if err != nil {
		t.Fatal(err)
	}
	if w := do(newServer(t, inventory.ModeOwn, controller), http.MethodPost, protocol.ProgressPath,
		string(body)); w.Code != http.StatusNoContent {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	got := controller.seen[0]
	if got.MAC != bootMAC || len(got.Detail) > detailLimit || !strings.HasPrefix(got.Detail, "a [31m é") {
		t.Errorf("%+v", got)
	}
}

func TestBlobsAreSentInPartsAndForEver(t *testing.T) {
	s, blobs := newServer(t, inventory.ModeOwn, newController()), newFolder(t)
	s.Blobs = blobs
	content := bytes.Repeat([]byte("muster"), 1<<19) // 3 MB: more than one piece
	digest := blobs.add(t, content)
	whole := get(s, protocol.BlobPath+digest)
	if !bytes.Equal(whole.Body.Bytes(), content) || whole.Header().Get("ETag") != `"`+digest+`"` ||
		!strings.Contains(whole.Header().Get("Cache-Control"), "immutable") {
		t.Errorf("%d bytes with %v", whole.Body.Len(), whole.Header())
	}
	if part := get(s, protocol.BlobPath+digest, "Range", "bytes=1000000-"); part.Code != http.StatusPartialContent ||
		!bytes.Equal(part.Body.Bytes(), content[1000000:]) {
		t.Errorf("a part: %d, %d bytes", part.Code, part.Body.Len())
	}
	if part := get(s, protocol.BlobPath+digest, "Range", "bytes=9000000-"); part.Code != http.StatusRequestedRangeNotSatisfiable {
		t.Errorf("a part beyond the end: %d", part.Code)
	}
	if same := get(s, protocol.BlobPath+digest, "If-None-Match", `"`+digest+`"`); same.Code != http.StatusNotModified {
		t.Errorf("what the machine has already: %d", same.Code)
	}
}

func TestAnInitramfsIsOurInitAndTheDrivers(t *testing.T) {
	s, blobs := newServer(t, inventory.ModeOwn, newController()), newFolder(t)
	s.Blobs = blobs
	s.Init = []byte("init!")
	digest := blobs.add(t, []byte("driver"))
	for _, c := range []struct{ path, want string }{
		{digest, "init!\x00\x00\x00driver\x00\x00"},
		{noDrivers, "init!\x00\x00\x00"},
	} {
		w := get(s, initramfsPath+c.path+"?mac="+bootMAC)
		if w.Body.String() != c.want || w.Header().Get("Content-Length") != fmt.Sprint(len(c.want)) {
			t.Errorf("%s: %q, %s", c.path, w.Body, w.Header().Get("Content-Length"))
		}
		if note := <-s.notes; note.Step != protocol.StepKernel || note.MAC != bootMAC {
			t.Errorf("noted: %+v", note)
		}
	}
	if w := do(s, http.MethodHead, initramfsPath+digest+"?mac="+bootMAC, ""); w.Body.Len() != 0 || len(s.notes) != 0 {
		t.Error("somebody who asked only for the length has booted")
	}
}

// Nothing of a boot's token reaches a log, whatever goes wrong.
func TestTokensAreNotLogged(t *testing.T) {
	controller, log := newController(bootMAC), &bytes.Buffer{}
	controller.boot = BootConfig{Kernel: "sha256:ce", Token: "top-secret", Arguments: "bad|| argument"}
	s := newServer(t, inventory.ModeOwn, controller)
	s.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	get(s, scriptPath+"?mac="+bootMAC)
	controller.boot.Arguments = ""
	get(s, scriptPath+"?mac="+bootMAC)
	controller.broken = errors.New("no database")
	get(s, scriptPath+"?mac="+bootMAC)
	if !strings.Contains(log.String(), "no database") || strings.Contains(log.String(), "top-secret") {
		t.Error(log)
	}
}

func TestAnOperatorsFirmwareGoesFirst(t *testing.T) {
	mine, debians := t.TempDir(), t.TempDir()
	for path, content := range map[string]string{
		debians + "/undionly.kpxe": "debian", debians + "/snponly.efi": "debian", debians + "/secret": "no",
		mine + "/snponly.efi": "signed", mine + "/snponly-shim.efi": "shim", mine + "/arm64/snponly.efi": "arm",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(mine+"/undionly.kpxe", 0o700); err != nil { // no file
		t.Fatal(err)
	}
	f := firmware{mine, debians}
	for name, want := range map[string]string{
		"snponly.efi": "signed", "snponly-shim.efi": "shim", "undionly.kpxe": "debian", "arm64/snponly.efi": "arm",
		"secret": "", "../secret": "", "ipxe.efi": "", "": "", "/etc/passwd": "", "arm64/../undionly.kpxe": "",
	} {
		content := ""
		if file, size, err := f.open(name); err == nil {
			content = string(readAll(t, file, size))
		}
		if content != want {
			t.Errorf("%q is %q", name, content)
		}
	}
	if first := f.first("snponly.efi"); first != "snponly-shim.efi" {
		t.Errorf("a machine with Secure Boot is sent to %s", first)
	}
	if missing := f.missing(); len(missing) != 1 || missing[0] != "ipxe.efi" {
		t.Errorf("missing: %v", missing)
	}
}

func readAll(t *testing.T, file *os.File, size int64) []byte {
	defer file.Close()
	content := make([]byte, size)
	if _, err := file.Read(content); err != nil {
		t.Fatal(err)
	}
	return content
}

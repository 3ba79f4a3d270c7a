package netboot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/internal/kit/pattern"
	"muster/internal/netboot/onlink"
	"muster/internal/protocol"
)

// Paths that only this package's own script and DHCP answers name; the others are the protocol's.
const (
	scriptPath    = "/boot/v1/script"
	kernelPath    = "/boot/v1/kernel/"
	initramfsPath = "/boot/v1/initramfs/"
	firmwarePath  = "/boot/v1/firmware/"
)

const (
	headerWait    = 10 * time.Second // for a request's header, and for a small body
	idleWait      = 60 * time.Second // between requests of one connection
	headerLimit   = 8 << 10          // bytes
	progressLimit = 4 << 10          // bytes of a progress report
	factsLimit    = 64 << 10         // bytes of an unknown machine's facts
	enrolLimit    = 2 * factsLimit   // bytes of an enrolment, whose facts are in base64
	macsLimit     = 64               // NICs of one machine
	detailLimit   = 500              // bytes of a progress report's detail that count
)

// serveHTTP serves until the listener is closed.
func (s *server) serveHTTP(ctx context.Context) error {
	door := &door{Listener: s.http, open: map[string]int{}}
	server := &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: headerWait,
		IdleTimeout:       idleWait,
		MaxHeaderBytes:    headerLimit,
		ConnState:         door.changed,
		ConnContext:       onlink.WithCaller,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	defer server.Close()
	return server.Serve(door)
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+scriptPath, s.getScript)
	mux.HandleFunc("GET "+kernelPath+"{digest}", s.getBlob)
	mux.HandleFunc("GET "+initramfsPath+"{digest}", s.getInitramfs)
	mux.HandleFunc("GET "+firmwarePath+"{name...}", s.getFirmware)
	mux.HandleFunc("GET "+protocol.PlanPath, s.getPlan)
	mux.HandleFunc("GET "+protocol.BlobPath+"{digest}", s.getBlob)
	mux.HandleFunc("POST "+protocol.ProgressPath, s.postProgress)
	mux.HandleFunc("POST "+protocol.EnrolPath, s.postEnrol)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A slow sender ends here; what is sent has its own, moving deadline.
		control := http.NewResponseController(w)
		_ = control.SetReadDeadline(time.Now().Add(headerWait))
		_ = control.SetWriteDeadline(time.Now().Add(pieceWait))
		answer := &paced{ResponseWriter: w, control: control}
		mux.ServeHTTP(answer, r)
		if length, err := strconv.ParseInt(w.Header().Get("Content-Length"), 10, 64); err == nil && isFile(r) {
			s.Telemetry.Sent(s.Network.Name, "http", answer.sent, answer.sent == length)
		}
	})
}

// isFile says that the request is for a file, not for what the Controller says.
func isFile(r *http.Request) bool {
	for _, path := range []string{kernelPath, initramfsPath, firmwarePath, protocol.BlobPath} {
		if strings.HasPrefix(r.URL.Path, path) {
			return r.Method == http.MethodGet
		}
	}
	return false
}

// parseMAC reads a MAC as people, kernels and iPXE write it: six bytes in hex between colons or hyphens.
func parseMAC(text string) (net.HardwareAddr, error) {
	mac, err := net.ParseMAC(text)
	if err != nil || len(text) != len("00:00:00:00:00:00") || !isMachine(mac) {
		return nil, fmt.Errorf("MAC %.40q: use the six bytes of one network card, as 52:54:00:12:34:56", text)
	}
	return mac, nil
}

// askedMAC is the query's MAC; false: the answer is given.
func askedMAC(w http.ResponseWriter, r *http.Request) (net.HardwareAddr, bool) {
	mac, err := parseMAC(r.URL.Query().Get("mac"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
	return mac, err == nil
}

// admit lets only the machine of a MAC through; false: the answer is given.
func (s *server) admit(ctx context.Context, w http.ResponseWriter, mac net.HardwareAddr) bool {
	err := s.admitted(ctx, mac)
	if err != nil {
		s.refuse(w, "cannot say who asks", err, mac.String())
	}
	return err == nil
}

// admitted says why a caller is not the machine of a MAC, and logs it.
func (s *server) admitted(ctx context.Context, mac net.HardwareAddr) error {
	who := onlink.CallerIn(ctx)
	err := s.Controller.Admit(ctx, s.Network.Name, mac, who)
	if errors.Is(err, onlink.ErrUnknownMachine) {
		s.tell(who.Sender.String(), "somebody asks in the name of a machine, and is refused", "mac", mac.String(), "address",
			who.Address, "from", who.Sender.String(), "why", err)
	}
	return err
}

// refuse answers an error of the Controller.
func (s *server) refuse(w http.ResponseWriter, what string, err error, mac string) {
	switch {
	case errors.Is(err, ErrUnknown), errors.Is(err, ErrNothing):
		http.Error(w, err.Error(), http.StatusNotFound)
	case errors.Is(err, ErrProof), errors.Is(err, onlink.ErrUnknownMachine):
		http.Error(w, err.Error(), http.StatusForbidden)
	default:
		s.trouble(what, err, "mac", mac)
		http.Error(w, "the controller cannot answer now; ask again", http.StatusServiceUnavailable)
	}
}

func (s *server) getPlan(w http.ResponseWriter, r *http.Request) {
	mac, ok := askedMAC(w, r)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), houseWait)
	defer cancel()
	if !s.admit(ctx, w, mac) {
		return
	}
	plan, err := s.Controller.Plan(ctx, s.Network.Name, mac)
	if err != nil {
		s.refuse(w, "cannot say what a machine boots", err, mac.String())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(plan) // an error is the machine's: it has gone
}

func (s *server) postProgress(w http.ResponseWriter, r *http.Request) {
	var p protocol.BootProgress
	if !readJSON(w, r, progressLimit, &p) {
		return
	}
	proof, ok := proofOf(r)
	mac, err := parseMAC(p.MAC)
	switch {
	case err != nil:
		http.Error(w, "mac: "+err.Error(), http.StatusBadRequest)
	case p.Step != protocol.StepInit && p.Step != protocol.StepRoot && p.Step != protocol.StepProblem:
		http.Error(w, "step: a machine reports init, root or problem", http.StatusBadRequest)
	case p.Took < 0:
		http.Error(w, "took: is negative", http.StatusBadRequest)
	case !ok:
		http.Error(w, `authorization: use "Boot " and the lower-case hex SHA-256 of the boot's token`, http.StatusUnauthorized)
	default:
		p.MAC, p.Detail = mac.String(), printable(p.Detail, detailLimit)
		if at, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
			p.From = at.Addr().Unmap()
		}
		ctx, cancel := context.WithTimeout(r.Context(), houseWait)
		defer cancel()
		if !s.admit(ctx, w, mac) {
			return
		}
		if err := s.Controller.Seen(ctx, s.Network.Name, p, proof); err != nil {
			s.refuse(w, "cannot note a boot's step", err, p.MAC)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

// proofOf reads the Authorization header; without one the proof is "".
func proofOf(r *http.Request) (string, bool) {
	header := r.Header.Get("Authorization")
	if header == "" {
		return "", true
	}
	proof, ok := strings.CutPrefix(header, "Boot ")
	return proof, ok && len(proof) == 64 && strings.Trim(proof, "0123456789abcdef") == ""
}

// printable keeps what a terminal shows harmlessly, at most limit bytes of it.
func printable(text string, limit int) string {
	clean := strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if len(clean) > limit {
		clean = strings.ToValidUTF8(clean[:limit], "")
	}
	return clean
}

func (s *server) postEnrol(w http.ResponseWriter, r *http.Request) {
	var e protocol.Enrolment
	if !readJSON(w, r, enrolLimit, &e) {
		return
	}
	if err := tidyEnrolment(&e); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), houseWait)
	defer cancel()
	sender := onlink.CallerIn(ctx).Sender
	if !slices.Contains(e.MACs, sender.String()) {
		http.Error(w, fmt.Sprintf("macs: %q is not among them, and this comes from there", sender), http.StatusForbidden)
		return
	}
	if !s.admit(ctx, w, sender) {
		return
	}
	if err := s.Controller.Enrol(ctx, s.Network.Name, sender, e); err != nil {
		s.refuse(w, "cannot note an unknown machine", err, e.MACs[0])
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// tidyEnrolment checks an enrolment and writes its MACs the way the controller does.
func tidyEnrolment(e *protocol.Enrolment) error {
	if len(e.MACs) == 0 || len(e.MACs) > macsLimit {
		return fmt.Errorf("macs: %d; a machine has 1 to %d", len(e.MACs), macsLimit)
	}
	for i := range e.MACs {
		mac, err := parseMAC(e.MACs[i])
		if err != nil {
			return fmt.Errorf("macs[%d]: %w", i, err)
		}
		e.MACs[i] = mac.String()
	}
	if len(e.Facts) > factsLimit {
		return fmt.Errorf("facts: %d bytes; at most %d are read", len(e.Facts), factsLimit)
	}
	if !json.Valid(e.Facts) {
		return errors.New("facts: are not JSON")
	}
	return nil
}

// readJSON reads a body of at most limit bytes; false: the answer is given.
func readJSON(w http.ResponseWriter, r *http.Request, limit int64, into any) bool {
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, limit)).Decode(into)
	if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
		http.Error(w, fmt.Sprintf("the body is longer than %d bytes", limit), http.StatusRequestEntityTooLarge)
	} else if err != nil {
		http.Error(w, "the body is not what is expected: "+err.Error(), http.StatusBadRequest)
	}
	return err == nil
}

var digestForm = pattern.New(`^sha256:[0-9a-f]{64}$`)

// blob opens the file of the path's digest; false: the answer is given.
func (s *server) blob(w http.ResponseWriter, digest string) (Blob, bool) {
	if !digestForm.MatchString(digest) {
		http.Error(w, `digest: use "sha256:" and 64 hex digits`, http.StatusBadRequest)
		return nil, false
	}
	blob, err := s.Blobs.Blob(digest)
	switch {
	case errors.Is(err, os.ErrNotExist):
		http.Error(w, "there is no such file", http.StatusNotFound)
	case err != nil:
		s.trouble("cannot open a file", err, "digest", digest)
		http.Error(w, "the file cannot be read now; ask again", http.StatusServiceUnavailable)
	}
	return blob, err == nil
}

// unhurried is for answers that take long. The request is here, so its deadline has done its work; if it passed now, the
// server would take it for the end of the connection, and refuse the machine's next request on it.
func unhurried(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // fails only where there is none
}

// immutable says that a path's content never changes: it is named by what it is.
func immutable(w http.ResponseWriter, tag string) {
	w.Header().Set("ETag", strconv.Quote(tag))
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	w.Header().Set("Content-Type", "application/octet-stream")
}

// getBlob sends a file, or the ranges of it that are asked for: a transfer that broke goes on where it stopped.
func (s *server) getBlob(w http.ResponseWriter, r *http.Request) {
	digest := r.PathValue("digest")
	blob, ok := s.blob(w, digest)
	if !ok {
		return
	}
	defer blob.Close()
	immutable(w, digest)
	unhurried(w)
	http.ServeContent(w, r, "", time.Time{}, blob)
}

// noDrivers stands for the drivers in the path of an initramfs that has none.
const noDrivers = "none"

// getInitramfs sends our init and the image's drivers as one file. The kernel takes archives one after the other, each
// beginning at a multiple of 4 bytes (Documentation/driver-api/early-userspace/buffer-format.rst).
func (s *server) getInitramfs(w http.ResponseWriter, r *http.Request) {
	digest, length := r.PathValue("digest"), int64(0)
	var drivers io.ReadSeeker = strings.NewReader("")
	if digest != noDrivers {
		blob, ok := s.blob(w, digest)
		if !ok {
			return
		}
		defer blob.Close()
		var err error
		if length, err = blob.Seek(0, io.SeekEnd); err == nil {
			_, err = blob.Seek(0, io.SeekStart)
		}
		if err != nil {
			s.trouble("cannot read a file", err, "digest", digest)
			http.Error(w, "the file cannot be read now; ask again", http.StatusServiceUnavailable)
			return
		}
		drivers = blob
	}
	gap, end := padding(int64(len(s.Init))), padding(length)
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(int64(len(s.Init))+gap+length+end, 10))
	if r.Method == http.MethodHead {
		return
	}
	unhurried(w)
	zeros := make([]byte, 4)
	for _, part := range []func() (int64, error){
		func() (int64, error) { return io.CopyN(w, bytes.NewReader(s.Init), int64(len(s.Init))) },
		func() (int64, error) { n, err := w.Write(zeros[:gap]); return int64(n), err },
		func() (int64, error) { return io.CopyN(w, drivers, length) },
		func() (int64, error) { n, err := w.Write(zeros[:end]); return int64(n), err },
	} {
		if _, err := part(); err != nil {
			return // the machine has gone, or will ask again
		}
	}
	// It is the last that the script fetches.
	if mac, err := parseMAC(r.URL.Query().Get("mac")); err == nil && s.admitted(r.Context(), mac) == nil {
		s.note(mac, protocol.StepKernel, "")
	}
}

func padding(n int64) int64 { return -n & 3 }

func (s *server) getFirmware(w http.ResponseWriter, r *http.Request) {
	file, _, err := s.firmware.open(r.PathValue("name"))
	if err != nil {
		http.Error(w, "there is no such boot file", http.StatusNotFound)
		return
	}
	defer file.Close()
	w.Header().Set("Content-Type", "application/efi") // UEFI 2.5, section 23.7.2
	http.ServeContent(w, r, "", time.Time{}, file)
}

package netboot

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"muster/internal/inventory"
)

// dhcpSeeds are one packet of every kind and of every client.
func dhcpSeeds(t testing.TB) [][]byte {
	var seeds [][]byte
	for kind := range dhcpv4.MessageType(9) {
		for _, client := range [][]dhcpv4.Modifier{nil, biosPXE, uefiPXE, uefiHTTP, ipxeBIOS} {
			modifiers := append([]dhcpv4.Modifier{dhcpv4.WithOption(dhcpv4.OptServerIdentifier(ip("10.78.0.1"))),
				dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(ip("10.78.0.10")))}, client...)
			seeds = append(seeds, ask(t, kind, modifiers...).data)
		}
	}
	return append(seeds,
		ask(t, discover, dhcpv4.WithGatewayIP(ip("10.78.9.9")), option(82, 1, 4, 'p', 'o', 'r', 't')).data,
		ask(t, request3, dhcpv4.WithClientIP(ip("10.78.0.10"))).data,
		ask(t, inform, dhcpv4.WithClientIP(ip("10.78.7.7"))).data)
}

// FuzzDHCP: whatever comes in, there is at most one answer, which is a DHCP packet that fits into a frame, and no unknown machine
// gets one.
func FuzzDHCP(f *testing.F) {
	for _, seed := range dhcpSeeds(f) {
		f.Add(seed)
	}
	own := newServer(f, inventory.ModeOwn, newController(bootMAC))
	proxy := newServer(f, inventory.ModeProxy, newController(bootMAC))
	f.Fuzz(func(t *testing.T, packet []byte) {
		kindOf(packet)
		for _, answer := range []answerer{own.lease, proxy.proxyOffer, proxy.proxyBoot} {
			got, to := give(t, answer, datagram{data: packet, peer: netip.MustParseAddrPort("10.78.0.99:68")})
			if got == nil {
				continue
			}
			if got.ClientHWAddr.String() != bootMAC || got.OpCode != dhcpv4.OpcodeBootReply || !to.IsValid() ||
				len(got.ToBytes()) > 1472 {
				t.Errorf("to %s: %s", to, got.Summary())
			}
		}
		for len(own.notes) > 0 {
			<-own.notes
		}
	})
}

// FuzzUDP: whatever a frame holds, what is read of it was in it.
func FuzzUDP(f *testing.F) {
	f.Add([]byte("E\x00\x00\x20\x00\x00\x00\x00\x40\x11\x00\x00\x0aN\x01B\x0aN\x00\x01\x00D\x00C\x00\x0c\x00\x00abcd"))
	f.Add([]byte("E\x00\x00\x20\x00\x00\x20\x00\x40\x11\x00\x00\x0aN\x01B\x0aN\x00\x01\x00D\x00C\x00\x0c\x00\x00abcd"))
	f.Fuzz(func(t *testing.T, packet []byte) {
		d, sound := parseUDP(packet)
		if sound && (!d.peer.IsValid() || !d.to.Is4() || len(d.data) > len(packet)-28 || !bytes.Contains(packet, d.data)) {
			t.Errorf("%+v", d)
		}
	})
}

// FuzzTFTP: whatever is asked for, no path leaves the folders, no block is longer than a frame, no transfer is kept waiting.
func FuzzTFTP(f *testing.F) {
	for _, seed := range [][]byte{rrq("snponly.efi"), rrq("../../etc/passwd", "blksize", "1428"),
		rrq("undionly.kpxe", "tsize", "0", "windowsize", "8", "timeout", "1"), {0, 2, 'a', 0, 'b', 0}, {0, 4, 0, 1}} {
		f.Add(seed)
	}
	folder := firmware{f.TempDir()}
	f.Fuzz(func(t *testing.T, packet []byte) {
		r, err := parseReadRequest(packet, 1500)
		if err != nil {
			return
		}
		if r.block < 8 || r.block > 1468 || r.window < 1 || r.window > tftpWindow || r.wait < time.Second ||
			r.wait > tftpLongest*time.Second {
			t.Errorf("%+v", r)
		}
		if file, _, err := folder.open(r.name); err == nil {
			t.Errorf("%q was opened: %s", r.name, file.Name())
		}
	})
}

// FuzzTFTPAcknowledgement: whatever a client answers, only what was sent can be acknowledged.
func FuzzTFTPAcknowledgement(f *testing.F) {
	f.Add([]byte{0, 4, 0, 1}, uint32(0), uint16(1))
	f.Add([]byte{0, 4, 0xff, 0xff}, uint32(70000), uint16(16))
	f.Add([]byte("\x00\x05\x00\x08aborted\x00"), uint32(1), uint16(1))
	f.Fuzz(func(t *testing.T, packet []byte, done uint32, window uint16) {
		from, to := int64(done), int64(done)+int64(window%(tftpWindow+1))
		if acked, err := acknowledged(packet, from, to); err == nil && acked != -2 && (acked < from || acked > to) {
			t.Errorf("%d is acknowledged, of %d to %d", acked, from, to)
		}
	})
}

// httpSeeds are requests as machines send them.
func httpSeeds() []string {
	post := func(path, body string) string {
		return "POST " + path + " HTTP/1.1\r\nHost: a\r\nAuthorization: Boot " + proofOfToken + "\r\nContent-Length: " +
			strconv.Itoa(len(body)) + "\r\n\r\n" + body
	}
	return []string{
		"GET /boot/v1/script?mac=" + bootMAC + " HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /boot/v1/plan?mac=52-54-00-00-00-01 HTTP/1.0\r\n\r\n",
		"GET /boot/v1/blob/" + digestOf(nil) + " HTTP/1.1\r\nHost: a\r\nRange: bytes=1-2,3-\r\n\r\n",
		"GET /boot/v1/initramfs/none?mac=" + bootMAC + " HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /boot/v1/firmware/snponly.efi HTTP/1.1\r\nHost: a\r\n\r\n",
		post("/boot/v1/progress", `{"mac":"`+bootMAC+`","step":"problem","detail":"no disk","took":5000000000}`),
		post("/boot/v1/enrol", `{"macs":["`+bootMAC+`"],"facts":"e30="}`),
	}
}

// FuzzHTTP: whatever is asked, nothing panics, and the controller finds no fault with itself.
func FuzzHTTP(f *testing.F) {
	for _, seed := range httpSeeds() {
		f.Add([]byte(seed))
	}
	controller, blobs := newController(bootMAC), folder(f.TempDir())
	controller.boot = BootConfig{Kernel: digestOf(nil), Token: "one-time"}
	s := newServer(f, inventory.ModeOwn, controller)
	s.Blobs, s.Init = blobs, []byte("init")
	handler := s.handler()
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(text)))
		if err != nil {
			return
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code >= 500 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		for len(s.notes) > 0 {
			<-s.notes
		}
		controller.seen, controller.proofs, controller.enrolled = nil, nil, nil
	})
}

// FuzzMAC: what is read is one machine's, and reads the same again.
func FuzzMAC(f *testing.F) {
	for _, seed := range []string{bootMAC, "52-54-00-00-00-01", "5254.0000.0001", "FF:ff:ff:ff:ff:ff", "00:00:00:00:00:00",
		"52:54:00:00:00:01:02:03"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		mac, err := parseMAC(text)
		if err != nil {
			return
		}
		if again, err := parseMAC(mac.String()); err != nil || !bytes.Equal(again, mac) || !isMachine(mac) {
			t.Errorf("%q is %s, then %s, %v", text, mac, again, err)
		}
	})
}

// FuzzRouterSolicitation: an answer goes to who asked, and is well formed.
func FuzzRouterSolicitation(f *testing.F) {
	seed, err := hex.DecodeString(solicitationFrame)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	card := hardware("52:54:00:ff:00:01")
	f.Fuzz(func(t *testing.T, frame []byte) {
		if got := advertise(frame, card); got != nil && (len(got) != 78 || !bytes.Equal(got[:6], frame[6:12])) {
			t.Errorf("%x", got)
		}
	})
}

package noded

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/internal/protocol"
)

func TestAGuestThatSleptRenewsItsCertificates(t *testing.T) {
	l := newLab(t)
	l.onMetal(t, func(b *protocol.BootFile) { b.Attachment.NIC = b.Attachment.MAC })
	l.controller.listen(t, filepath.Join(l.sockets, "one.sock"))
	l.run(t)
	joined := func(times int) func() bool { return func() bool { return l.controller.joins["n1"] >= times } }
	l.controller.until(t, "a certificate", joined(1))
	l.machine.mu.Lock()
	l.machine.slept = time.Hour
	l.machine.mu.Unlock()
	l.controller.until(t, "another one", joined(2))
	if !strings.Contains(l.console.String(), "was suspended for 1h0m0s") {
		t.Errorf("it says\n%s", &l.console)
	}
}

func TestACertificateThatHasEndedIsNotShown(t *testing.T) {
	for life, shown := range map[time.Duration]bool{time.Hour: true, -time.Second: false} {
		l := newLab(t)
		l.controller.life = life
		i, err := newIdentity()
		must(t, err)
		request, err := i.request("n1")
		must(t, err)
		_, key, err := sshKey("n1")
		must(t, err)
		reply, err := l.controller.certify(protocol.JoinRequest{Node: "n1", CSR: request, HostKey: key})
		must(t, err)
		must(t, i.accept(reply.Certificate))
		if is := i.shown() != nil; is != shown {
			t.Errorf("with %s left it is shown: %v", life, is)
		}
	}
}

package netboot

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"muster/internal/protocol"
)

// scriptAgain is what a machine waits between two attempts to boot. It never gives up: an operator who wants it otherwise
// switches it off.
const scriptAgain = 5 // seconds

// defaultArguments are used where the Controller has none: on machines of a rack somebody may look at the screen or at the
// serial line, and a kernel that panics must not stand there for good.
const defaultArguments = "quiet panic=30 console=tty0 console=ttyS0,115200"

// commandLineLimit is what x86 kernels take, the zero at its end included (COMMAND_LINE_SIZE).
const commandLineLimit = 2048

// getScript is what iPXE runs. It holds the boot's token, so it is asked of the Controller only here, and never logged.
func (s *server) getScript(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if !r.URL.Query().Has("mac") {
		fmt.Fprintf(w, whoScript, s.base()+scriptPath)
		return
	}
	mac, ok := askedMAC(w, r)
	if !ok || r.Method == http.MethodHead {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), houseWait)
	defer cancel()
	if !s.admit(ctx, w, mac) {
		return
	}
	boot, err := s.Controller.BootConfig(ctx, s.Network.Name, mac)
	if errors.Is(err, ErrNothing) {
		fmt.Fprint(w, localScript)
		return
	}
	if errors.Is(err, ErrWait) {
		fmt.Fprintf(w, waitScript, scriptAgain, s.scriptURL(mac))
		return
	}
	var script string
	if err == nil {
		script, err = s.script(mac, boot)
	}
	if err != nil {
		s.refuse(w, "cannot say how a machine boots", err, mac.String())
		return
	}
	if _, err := fmt.Fprint(w, script); err == nil {
		s.note(mac, protocol.StepScript, "")
	}
}

// whoScript is for a DHCP server that is not ours and that cannot put the MAC into the name of a boot file.
const whoScript = `#!ipxe
chain --replace --autofree %s?mac=${netX/mac}
`

// localScript goes on to the machine's own disk. A UEFI does so when iPXE fails: after a plain "exit" it would stop in its
// menu. A BIOS without a disk goes on to its next boot device.
const localScript = `#!ipxe
echo Muster: nothing to boot from the network now; on to the local disk
iseq ${platform} efi && exit 1 ||
sanboot --no-describe --drive 0x80 ||
exit 1
`

// waitScript is for a machine that is to boot and may have no script now. It must not go on to its own disk, where something of a
// tenant's may be.
const waitScript = `#!ipxe
:again
echo Muster: this boot was asked for too often; it is begun again soon
sleep %d
chain --replace --autofree %s || goto again
`

// script boots kernel and initramfs. Both get names, since a UEFI kernel looks for its initramfs by name.
func (s *server) script(mac net.HardwareAddr, b BootConfig) (string, error) {
	line, err := s.commandLine(mac, b)
	if err != nil {
		return "", err
	}
	drivers := b.Drivers
	if drivers == "" {
		drivers = noDrivers
	}
	query := "?mac=" + mac.String()
	return strings.Join([]string{
		"#!ipxe",
		"kernel --name kernel " + s.base() + kernelPath + b.Kernel + query + " " + line + " || goto again",
		"initrd --name initrd " + s.base() + initramfsPath + drivers + query + " || goto again",
		"boot || goto again",
		":again",
		fmt.Sprintf("echo Muster: this boot failed; once more in %d s", scriptAgain),
		fmt.Sprintf("sleep %d", scriptAgain),
		"imgfree",
		"chain --replace --autofree " + s.scriptURL(mac) + " || goto again",
		"",
	}, "\n"), nil
}

// commandLine is the kernel's command line, as protocol describes it. It must not be able to say anything to iPXE.
func (s *server) commandLine(mac net.HardwareAddr, b BootConfig) (string, error) {
	words := []string{"initrd=initrd", "muster.server=" + s.base(), "muster.mac=" + mac.String()}
	if b.Address.IsValid() {
		words = append(words, "muster.address="+netip.PrefixFrom(b.Address, s.Network.Address.Bits()).String())
	}
	if b.Token != "" {
		words = append(words, "muster.token="+b.Token)
	}
	arguments := b.Arguments
	if arguments == "" {
		arguments = defaultArguments
	}
	line := strings.Join(append(words, strings.Fields(arguments)...), " ")
	if i := strings.IndexFunc(line, func(r rune) bool { return r < ' ' || r > '~' }); i >= 0 {
		return "", fmt.Errorf("kernel arguments: byte %d is not printable ASCII", i)
	}
	for _, special := range []string{"${", "||", "&&", `"`, "'", `\`, "#"} {
		if strings.Contains(line, special) {
			return "", fmt.Errorf("kernel arguments: %s means something to iPXE; leave it out", special)
		}
	}
	if len(line) >= commandLineLimit {
		return "", fmt.Errorf("kernel arguments: the command line has %d bytes, and a kernel takes %d", len(line),
			commandLineLimit-1)
	}
	return line, nil
}

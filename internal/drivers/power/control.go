package power

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"

	"muster/internal/inventory"
)

// Control is a parsed inventory.Power.Control.
type Control struct {
	Kind Kind
	Host string // ipmi, redfish: name or literal address
	Port uint16
	// System is the path of the machine on a Redfish service; "": the only one there.
	System string
	// Certificate is the SHA-256 of the Redfish service's certificate (its DER); nil: the host's certificate authorities decide.
	Certificate *[sha256.Size]byte
	Program     string // command: a file name
	Args        []string
}

// Kind is a way to switch machines.
type Kind string

// The kinds.
const (
	WakeOnLAN Kind = inventory.WakeOnLAN
	IPMI      Kind = "ipmi"
	Redfish   Kind = "redfish"
	Command   Kind = "command"
)

// Limits of what is taken from outside.
const (
	maxControl = 2048 // bytes
	maxArgs    = 16
)

var (
	hostName    = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$`)
	programName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	systemPath  = regexp.MustCompile(`^/redfish/v1/Systems/[A-Za-z0-9._:~-]+/?$`)
)

// Validate says what is wrong with power settings that somebody gives a machine. It opens and asks nothing. A path is
// refused: who may enrol machines need not be who may read the controller's files.
func Validate(p inventory.Power) error {
	if path, is := strings.CutPrefix(p.Credentials, "file:"); is {
		return fmt.Errorf("credentials: %.200q is a path; credentials lie in secrets.d of the data directory, where root puts them, and are named: secret:NAME", path)
	}
	return validate(p)
}

// validate also takes what rows have from before there was secrets.d.
func validate(p inventory.Power) error {
	control, err := Parse(p.Control)
	if err != nil {
		return err
	}
	if control.Kind == WakeOnLAN && p.Credentials != "" {
		return fmt.Errorf("credentials: Wake-on-LAN has none; leave them out")
	}
	if control.Kind == IPMI && p.Credentials == "" {
		return fmt.Errorf("credentials: IPMI needs them; use secret:NAME or env:BMC…")
	}
	return validateReference(p.Credentials)
}

// Parse reads a Control strictly. Its errors repeat nothing that could be a password.
func Parse(control string) (Control, error) {
	c, err := parse(control)
	if err != nil {
		return Control{}, fmt.Errorf("power control: %w", err)
	}
	return c, nil
}

func parse(control string) (Control, error) {
	if len(control) > maxControl {
		return Control{}, fmt.Errorf("longer than %d bytes", maxControl)
	}
	kind, rest, _ := strings.Cut(control, ":")
	switch Kind(kind) {
	case WakeOnLAN:
		if control != string(WakeOnLAN) {
			return Control{}, errors.New("wol: nothing may follow; the magic packet goes to the machine's MACs on its network")
		}
		return Control{Kind: WakeOnLAN}, nil
	case IPMI, Redfish:
		return parseBMC(Kind(kind), rest)
	case Command:
		return parseCommand(rest)
	case "":
		return Control{}, errors.New("missing; use wol, ipmi://HOST, redfish://HOST or command:PROGRAM")
	}
	return Control{}, errors.New("unknown kind; use wol, ipmi://HOST, redfish://HOST or command:PROGRAM")
}

func parseBMC(kind Kind, rest string) (Control, error) {
	if strings.Contains(rest, "@") {
		return Control{}, fmt.Errorf("%s: user and password do not belong here; put them into a file in secrets.d and name it as credentials, secret:NAME", kind)
	}
	authority, ok := strings.CutPrefix(rest, "//")
	if !ok {
		return Control{}, fmt.Errorf("%s: write %s://HOST", kind, kind)
	}
	// A port, a path and options may follow the host; the library knows the brackets of IPv6.
	u, err := url.Parse("bmc://" + authority)
	if err != nil {
		var inside *url.Error
		if errors.As(err, &inside) {
			err = inside.Err // without the whole text
		}
		return Control{}, fmt.Errorf("%s: %w", kind, err)
	}
	c := Control{Kind: kind, Host: u.Hostname(), Port: map[Kind]uint16{IPMI: 623, Redfish: 443}[kind]}
	if err := checkHost(c.Host, strings.HasPrefix(u.Host, "[")); err != nil {
		return Control{}, fmt.Errorf("%s: %w", kind, err)
	}
	if port := u.Port(); port != "" || strings.HasSuffix(u.Host, ":") {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return Control{}, fmt.Errorf("%s: port %q; use 1 to 65535, or leave it out for %d", kind, port, c.Port)
		}
		c.Port = uint16(n)
	}
	if u.Fragment != "" || strings.Contains(authority, "#") {
		return Control{}, fmt.Errorf("%s: # has no meaning here", kind)
	}
	if kind == IPMI {
		if u.Path != "" || strings.Contains(authority, "?") {
			return Control{}, errors.New("ipmi: nothing may follow host and port")
		}
		return c, nil
	}
	if u.Path != "" && u.Path != "/" {
		if !systemPath.MatchString(u.EscapedPath()) || path.Base(u.Path) == ".." || path.Base(u.Path) == "." {
			return Control{}, fmt.Errorf("redfish: path %q; use that of a system, as /redfish/v1/Systems/1", u.EscapedPath())
		}
		c.System = strings.TrimSuffix(u.EscapedPath(), "/")
	}
	c.Certificate, err = parseCertificate(u)
	return c, err
}

func checkHost(host string, brackets bool) error {
	if strings.Contains(host, "%") {
		return errors.New("host: an address with a zone says nothing on another host; use a name or a global address")
	}
	_, err := netip.ParseAddr(host)
	switch {
	case host == "":
		return errors.New("host: missing")
	case brackets != strings.Contains(host, ":"):
		return errors.New("host: brackets are for IPv6 addresses, and those need them: [fd00::1]")
	case err != nil && (!hostName.MatchString(host) || len(host) > 253):
		return fmt.Errorf("host %q is neither a name nor an address", host)
	}
	return nil
}

func parseCertificate(u *url.URL) (*[sha256.Size]byte, error) {
	options, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("redfish: options: %w", err)
	}
	if len(options) == 0 && !u.ForceQuery {
		return nil, nil
	}
	given := options["certificate"]
	if len(options) != 1 || len(given) != 1 {
		return nil, errors.New("redfish: the one option is ?certificate=sha256:HEX")
	}
	digest, ok := strings.CutPrefix(given[0], "sha256:")
	raw, err := hex.DecodeString(digest)
	if !ok || err != nil || len(raw) != sha256.Size {
		return nil, fmt.Errorf("redfish: certificate: use sha256: and the 64 hex digits of the SHA-256 of the certificate's DER")
	}
	pin := [sha256.Size]byte(raw)
	return &pin, nil
}

func parseCommand(rest string) (Control, error) {
	program, query, hasQuery := strings.Cut(rest, "?")
	if !programName.MatchString(program) || len(program) > 255 {
		return Control{}, fmt.Errorf("command: %q is no plain file name; the program must be in the directory that the site has for them", program)
	}
	c := Control{Kind: Command, Program: program}
	if !hasQuery {
		return c, nil
	}
	for part := range strings.SplitSeq(query, "&") {
		value, ok := strings.CutPrefix(part, "arg=")
		if !ok {
			return Control{}, errors.New("command: after the program comes ?arg=A&arg=B…, each percent-encoded as in a URL")
		}
		arg, err := url.QueryUnescape(value)
		if err != nil {
			return Control{}, fmt.Errorf("command: argument %d: %w", len(c.Args)+1, err)
		}
		if strings.ContainsRune(arg, 0) {
			return Control{}, fmt.Errorf("command: argument %d holds a zero byte", len(c.Args)+1)
		}
		c.Args = append(c.Args, arg)
	}
	if len(c.Args) > maxArgs {
		return Control{}, fmt.Errorf("command: %d arguments; at most %d", len(c.Args), maxArgs)
	}
	return c, nil
}

// String is the control again, for messages. Its host and program are all that one needs to find it.
func (c Control) String() string {
	switch c.Kind {
	case IPMI, Redfish:
		return string(c.Kind) + "://" + c.address()
	case Command:
		return "command:" + c.Program
	}
	return string(c.Kind)
}

// address is what to dial.
func (c Control) address() string {
	if strings.Contains(c.Host, ":") {
		return fmt.Sprintf("[%s]:%d", c.Host, c.Port)
	}
	return fmt.Sprintf("%s:%d", c.Host, c.Port)
}

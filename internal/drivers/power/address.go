package power

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"muster/internal/kit/netns"
	"muster/internal/kit/pattern"
)

// Address is where a BMC is reached.
type Address struct {
	Host string // name or literal address, without brackets
	Port uint16
}

func (a Address) String() string { return net.JoinHostPort(a.Host, strconv.Itoa(int(a.Port))) }

var hostName = pattern.New(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$`)

// ParseURL reads the "://HOST[:PORT]…" of a control: the address, and the rest as a URL for the driver to judge. Its errors
// repeat nothing that could be a password.
func ParseURL(scheme, rest string, port uint16) (Address, *url.URL, error) {
	if strings.Contains(rest, "@") {
		return Address{}, nil, errors.New(
			"user and password do not belong here; put them into a file in secrets.d and name it as credentials, secret:NAME")
	}
	authority, ok := strings.CutPrefix(rest, "://")
	if !ok {
		return Address{}, nil, fmt.Errorf("write %s://HOST", scheme)
	}
	// A port, a path and options may follow the host; the library knows the brackets of IPv6.
	u, err := url.Parse("bmc://" + authority)
	if err != nil {
		if inside, is := errors.AsType[*url.Error](err); is {
			err = inside.Err // without the whole text
		}
		return Address{}, nil, err
	}
	a := Address{Host: u.Hostname(), Port: port}
	if err := checkHost(a.Host, strings.HasPrefix(u.Host, "[")); err != nil {
		return a, nil, err
	}
	if text := u.Port(); text != "" || strings.HasSuffix(u.Host, ":") {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil || n == 0 {
			return a, nil, fmt.Errorf("port %q; use 1 to 65535, or leave it out for %d", text, port)
		}
		a.Port = uint16(n)
	}
	if u.Fragment != "" || strings.Contains(authority, "#") {
		return a, nil, errors.New("# has no meaning here")
	}
	return a, u, nil
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

// Dial connects from inside a network namespace. Names are looked up by the host, since a namespace has no name server to ask.
func (a Address) Dial(ctx context.Context, namespace, network string) (net.Conn, error) {
	addresses := []string{a.Host}
	if _, err := netip.ParseAddr(a.Host); err != nil {
		if addresses, err = net.DefaultResolver.LookupHost(ctx, a.Host); err != nil {
			return nil, err
		}
	}
	var failures []error
	for _, address := range addresses {
		connection, err := netns.Dial(ctx, namespace, network, Address{address, a.Port}.String())
		if err == nil {
			return connection, nil
		}
		failures = append(failures, err)
	}
	return nil, errors.Join(failures...)
}

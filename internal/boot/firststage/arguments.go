package firststage

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// arguments are the machine's own words on the kernel's command line.
type arguments struct {
	server  *url.URL // base of the boot services
	mac     net.HardwareAddr
	address netip.Prefix // not valid: ask DHCP
	token   string
}

// parseArguments reads a kernel's command line. Words that are not ours are the kernel's.
func parseArguments(line string) (arguments, error) {
	var a arguments
	for _, word := range strings.Fields(line) {
		key, value, _ := strings.Cut(word, "=")
		var err error
		switch key {
		case "muster.server":
			a.server, err = parseServer(value)
		case "muster.mac":
			if a.mac, err = net.ParseMAC(value); err == nil && len(a.mac) != 6 {
				err = errors.New("an Ethernet address has six bytes")
			}
		case "muster.address":
			a.address, err = netip.ParsePrefix(value)
			if err == nil && !a.address.Addr().Is4() {
				err = errors.New("this needs IPv4, as 10.78.0.11/16")
			}
		case "muster.token":
			a.token = value
		}
		if err != nil {
			return arguments{}, fmt.Errorf("kernel command line: %s: %w", key, err)
		}
	}
	if a.server == nil || a.mac == nil {
		return arguments{}, errors.New(
			"kernel command line: muster.server= and muster.mac= are needed; the boot script of Muster's controller writes them")
	}
	return a, nil
}

func parseServer(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%q is not like http://10.78.0.1:8069", text)
	}
	return u, nil
}

package firststage

import (
	"strings"
	"testing"
)

const goodLine = "initrd=initrd quiet muster.server=http://10.78.0.1:8069 muster.mac=52:54:00:00:00:01 " +
	"muster.address=10.78.0.11/16 muster.token=abc console=ttyS0"

func TestArgumentsAreReadFromTheKernelsCommandLine(t *testing.T) {
	a, err := parseArguments(goodLine + "\n")
	if err != nil {
		t.Fatal(err)
	}
	if a.server.String() != "http://10.78.0.1:8069" || a.mac.String() != "52:54:00:00:00:01" ||
		a.address.String() != "10.78.0.11/16" || a.token != "abc" {
		t.Errorf("%+v", a)
	}
}

func TestArgumentsThatAreWrongAreRefusedByName(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"muster.server=http://10.78.0.1:8069", "", "muster.server= and muster.mac= are needed"},
		{"muster.mac=52:54:00:00:00:01", "", "muster.server= and muster.mac= are needed"},
		{"http://", "https://", "muster.server"},
		{"http://", "http://user:word@", "muster.server"},
		{":8069", ":8069?x=y", "muster.server"},
		{"52:54:00:00:00:01", "52:54:00:00:00:01:02:03", "muster.mac"},
		{"52:54", "zz:54", "muster.mac"},
		{"10.78.0.11/16", "10.78.0.11", "muster.address"},
		{"10.78.0.11/16", "fd78::1/64", "muster.address"},
	} {
		if _, err := parseArguments(strings.Replace(goodLine, c.old, c.new, 1)); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s for %s: got %v, want an error about %s", c.new, c.old, err, c.want)
		}
	}
}

func TestATokenIsInNoErrorOfItsLine(t *testing.T) {
	_, err := parseArguments("muster.token=secret muster.server=x")
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}

func FuzzArguments(f *testing.F) {
	f.Add(goodLine)
	f.Add("muster.server=http://[::1]:80/base muster.mac=52-54-00-00-00-01 muster.address=0.0.0.0/0")
	f.Add("muster.mac== =x muster.server")
	f.Fuzz(func(t *testing.T, line string) {
		a, err := parseArguments(line)
		if err == nil && (a.server.Scheme != "http" || a.server.Host == "" || len(a.mac) != 6 || a.address.IsValid() &&
			!a.address.Addr().Is4()) {
			t.Errorf("%q is read as %+v", line, a)
		}
	})
}

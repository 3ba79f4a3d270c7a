package power

import (
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"muster/internal/inventory"
)

const digest = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF"

func TestControlsThatAreRight(t *testing.T) {
	var pin [sha256.Size]byte
	for i := range pin {
		pin[i] = byte(i%16) * 0x11
	}
	for text, wanted := range map[string]Control{
		"wol":                     {Kind: WakeOnLAN},
		"ipmi://10.0.0.5":         {Kind: IPMI, Host: "10.0.0.5", Port: 623},
		"ipmi://n1-bmc.rack:6230": {Kind: IPMI, Host: "n1-bmc.rack", Port: 6230},
		"ipmi://[fd00::5]:623":    {Kind: IPMI, Host: "fd00::5", Port: 623},
		"redfish://bmc1":          {Kind: Redfish, Host: "bmc1", Port: 443},
		"redfish://bmc1/":         {Kind: Redfish, Host: "bmc1", Port: 443},
		"redfish://[fd00::5]:8443/redfish/v1/Systems/1?certificate=sha256:" + digest: {
			Kind: Redfish, Host: "fd00::5", Port: 8443, System: "/redfish/v1/Systems/1", Certificate: &pin},
		"redfish://bmc1/redfish/v1/Systems/System.Embedded.1/": {
			Kind: Redfish, Host: "bmc1", Port: 443, System: "/redfish/v1/Systems/System.Embedded.1"},
		"command:pdu":                       {Kind: Command, Program: "pdu"},
		"command:pdu.sh?arg=3&arg=a%20b%26": {Kind: Command, Program: "pdu.sh", Args: []string{"3", "a b&"}},
		"command:pdu?arg=":                  {Kind: Command, Program: "pdu", Args: []string{""}},
	} {
		got, err := Parse(text)
		if diff := cmp.Diff(wanted, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", text, err, diff)
		}
	}
}

func TestControlsThatAreWrongSayWhy(t *testing.T) {
	for text, why := range map[string]string{
		"":                                     "missing",
		"WOL":                                  "unknown kind",
		"wol:eth0":                             "nothing may follow",
		"wol://10.0.0.5":                       "nothing may follow",
		"ipmi":                                 "write ipmi://HOST",
		"ipmi:10.0.0.5":                        "write ipmi://HOST",
		"ipmi://":                              "host: missing",
		"ipmi://:623":                          "host: missing",
		"ipmi://a b":                           "invalid character",
		"ipmi://-a":                            "neither a name nor an address",
		"ipmi://fd00::5":                       "brackets",
		"ipmi://[10.0.0.5]":                    "invalid IP-literal",
		"ipmi://[fe80::1%25eth0]":              "zone",
		"ipmi://bmc1:":                         "port",
		"ipmi://bmc1:0":                        "port",
		"ipmi://bmc1:65536":                    "port",
		"ipmi://bmc1/":                         "nothing may follow",
		"ipmi://bmc1?certificate=":             "nothing may follow",
		"ipmi://bmc1#1":                        "# has no meaning",
		"redfish://bmc1#":                      "# has no meaning",
		"redfish://bmc1/systems/1":             "path",
		"redfish://bmc1/redfish/v1/Systems/..": "path",
		"redfish://bmc1/redfish/v1/Systems/1/Actions": "path",
		"redfish://bmc1/redfish/v1/Systems/a%2fb":     "path",
		"redfish://bmc1?":                                          "the one option",
		"redfish://bmc1?insecure=true":                             "the one option",
		"redfish://bmc1?certificate=sha256:00":                     "64 hex digits",
		"redfish://bmc1?certificate=" + digest:                     "64 hex digits",
		"redfish://bmc1?certificate=sha256:0&certificate=sha256:1": "the one option",
		"redfish://bmc1?certificate=sha256:" + digest + "&x=1":     "the one option",
		"redfish://bmc1?certificate=%zz":                           "options",
		"redfish+http://bmc1":                                      "unknown kind",
		"https://bmc1":                                             "unknown kind",
		"command:":                                                 "no plain file name",
		"command:/usr/bin/pdu":                                     "no plain file name",
		"command:../pdu":                                           "no plain file name",
		"command:-rf":                                              "no plain file name",
		"command:pdu 3":                                            "no plain file name",
		"command:pdu?":                                             "arg=A",
		"command:pdu?port=3":                                       "arg=A",
		"command:pdu?arg=%zz":                                      "argument 1",
		"command:pdu?arg=%00":                                      "zero byte",
		"command:pdu?arg=1" + strings.Repeat("&arg=1", 16):         "17 arguments",
		"command:" + strings.Repeat("p", maxControl):               "longer than",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v; it should say %q", text, err, why)
		}
	}
}

func TestACompleteURLWithAPasswordIsRefusedWithoutIt(t *testing.T) {
	for _, text := range []string{
		"ipmi://admin:hunter2@10.0.0.5", "redfish://admin:hunter2@bmc1/redfish/v1/Systems/1", "ipmi://admin:hunt/hunter2@bmc1", "hunter2@bmc1",
	} {
		if _, err := Parse(text); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestPowerSettingsAsAWhole(t *testing.T) {
	for p, why := range map[inventory.Power]string{
		{Control: "wol"}:                                                  "",
		{Control: "wol", Credentials: "env:BMC"}:                          "Wake-on-LAN has none",
		{Control: "ipmi://bmc1"}:                                          "IPMI needs them",
		{Control: "ipmi://bmc1", Credentials: "env:BMC"}:                  "",
		{Control: "redfish://bmc1"}:                                       "",
		{Control: "redfish://bmc1", Credentials: "file:/etc/m/bmc"}:       "is a path",
		{Control: "redfish://bmc1", Credentials: "secret:bmc"}:            "",
		{Control: "redfish://bmc1", Credentials: "secret:../admin.token"}: "no path",
		{Control: "redfish://bmc1", Credentials: "env:MUSTER_DB"}:         "begins with BMC",
		{Control: "redfish://bmc1", Credentials: "file:bmc"}:              "is a path",
		{Control: "redfish://bmc1", Credentials: "file:/etc/../b"}:        "is a path",
		{Control: "redfish://bmc1", Credentials: "env:A B"}:               "name of a variable",
		{Control: "redfish://bmc1", Credentials: "admin:hunter2"}:         "use secret:NAME or env:BMC",
	} {
		err := Validate(p)
		if (err == nil) != (why == "") || err != nil && (!strings.Contains(err.Error(), why) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%v: %v; it should say %q", p, err, why)
		}
	}
}

// FuzzParse: whatever an API client writes, what is accepted is safe to dial or to run, and what is not is not repeated
// if it could hold a password.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"wol", "ipmi://10.0.0.5:623", "ipmi://[fd00::5]", "ipmi://u:p@h", "redfish://bmc1/redfish/v1/Systems/1?certificate=sha256:" + digest,
		"redfish://bmc1//..", "command:pdu?arg=1&arg=%20", "command:../x", "ipmi://h:1:2", "redfish://[::1", "ipmi://%41", "command:a?arg=%",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse(text)
		if err != nil {
			if _, secret, ok := strings.Cut(text, "@"); ok && strings.HasPrefix(text, "ipmi:") && len(secret) > 8 && strings.Contains(err.Error(), secret) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		switch c.Kind {
		case IPMI, Redfish:
			if c.Host == "" || c.Port == 0 || strings.ContainsAny(c.Host, "@/?# %\x00\n") || strings.ContainsAny(c.System, "?# \x00\n") || strings.Contains(c.System, "..") {
				t.Errorf("%q: %+v", text, c)
			}
		case Command:
			if c.Program == "" || strings.ContainsAny(c.Program, "/\x00\n ") || c.Program[0] == '.' || c.Program[0] == '-' || strings.Contains(strings.Join(c.Args, ""), "\x00") {
				t.Errorf("%q: %+v", text, c)
			}
		case WakeOnLAN:
			if text != "wol" {
				t.Errorf("%q: %+v", text, c)
			}
		default:
			t.Errorf("%q: %+v", text, c)
		}
	})
}

package drivers_test

import (
	"strings"
	"testing"

	"muster/internal/drivers"
	"muster/internal/inventory"
)

const digest = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF"

func TestControlsThatAreWrongSayWhy(t *testing.T) {
	for text, why := range map[string]string{
		"":                                     "missing; use wol, ipmi://HOST, redfish://HOST or command:PROGRAM",
		"WOL":                                  "unknown kind; use wol, ipmi://HOST, redfish://HOST or command:PROGRAM",
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
		"command:" + strings.Repeat("p", 2048):                     "longer than",
	} {
		if _, err := drivers.Power().Parse(text); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v; it should say %q", text, err, why)
		}
	}
}

func TestACompleteURLWithAPasswordIsRefusedWithoutIt(t *testing.T) {
	for _, text := range []string{
		"ipmi://admin:hunter2@10.0.0.5", "redfish://admin:hunter2@bmc1/redfish/v1/Systems/1", "ipmi://admin:hunt/hunter2@bmc1",
		"hunter2@bmc1",
	} {
		if _, err := drivers.Power().Parse(text); err == nil || strings.Contains(err.Error(), "hunter2") {
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
		err := drivers.Power().Validate(p)
		if (err == nil) != (why == "") || err != nil &&
			(!strings.Contains(err.Error(), why) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%v: %v; it should say %q", p, err, why)
		}
	}
}

func TestHelpHasALineForEveryKind(t *testing.T) {
	help := drivers.Power().Help()
	for _, f := range drivers.Power() {
		if !strings.Contains(help, "\n  "+f.Form) && !strings.HasPrefix(help, "  "+f.Form) ||
			!strings.Contains(help, f.About+"\n") {
			t.Errorf("%s is not in\n%s", f.Scheme, help)
		}
	}
}

// FuzzParse: whatever an API client writes, what is accepted is called by its kind in messages, and what is not is not repeated
// if it could hold a password.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"wol", "ipmi://10.0.0.5:623", "ipmi://[fd00::5]", "ipmi://u:p@h",
		"redfish://bmc1/redfish/v1/Systems/1?certificate=sha256:" + digest,
		"redfish://bmc1//..", "command:pdu?arg=1&arg=%20", "command:../x", "ipmi://h:1:2", "redfish://[::1", "ipmi://%41",
		"command:a?arg=%", "", ":",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := drivers.Power().Parse(text)
		if err != nil {
			if _, secret, ok := strings.Cut(text, "@"); ok && !strings.HasPrefix(text, "command:") && len(secret) > 8 &&
				strings.Contains(err.Error(), secret) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		scheme, _, _ := strings.Cut(text, ":")
		if name, _, _ := strings.Cut(c.String(), ":"); name != scheme {
			t.Errorf("%q is called %q", text, c)
		}
	})
}

package redfish_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"muster/internal/drivers/power"
	"muster/internal/drivers/power/powertest"
)

// TestUsersOfARedfishServiceAreListed with those it has from a directory, and none where it shows none.
func TestUsersOfARedfishServiceAreListed(t *testing.T) {
	space, b := powertest.Namespace(t), newService()
	b.accounts = []map[string]any{{"UserName": user, "RoleId": "Administrator", "Enabled": true}, {"UserName": ""},
		{"UserName": "old", "Enabled": false}}
	p := powertest.Target(space, serve(t, space, b), powertest.Secret(t))
	powertest.WantUsers(t, powertest.Accounts(t, open(t, p)), `user "ADMIN": Administrator`, `user "old": disabled`)
	b.mutex.Lock()
	b.accounts = append(b.accounts, map[string]any{"UserName": "mallory", "RoleId": "Administrator", "Enabled": true})
	b.ldap = true
	b.mutex.Unlock()
	got := powertest.Accounts(t, open(t, p))
	powertest.WantUsers(t, got, `user "ADMIN": Administrator`, `user "mallory": Administrator`, `user "old": disabled`)
	if !slices.Contains(got, `LDAP is asked: ["ldaps://evil.example"]`) {
		t.Errorf("%q", got)
	}
	b.mutex.Lock()
	b.accounts = nil
	b.mutex.Unlock()
	if _, err := open(t, p).(power.Accountant).Accounts(t.Context()); !errors.Is(err, power.ErrUnsupported) {
		t.Error(err)
	}
}

// serveAccounts answers for an AccountService as DSP0266 and its schemas have it; false: it is asked for something else.
func (b *bmcService) serveAccounts(w http.ResponseWriter, path string) bool {
	const service = "/redfish/v1/AccountService"
	if b.accounts == nil || !strings.HasPrefix(path, service) {
		return false
	}
	switch rest := strings.TrimPrefix(path, service); rest {
	case "":
		answer(w, map[string]any{"Accounts": link(service + "/Accounts"),
			"LDAP": map[string]any{"ServiceEnabled": b.ldap, "ServiceAddresses": []string{"ldaps://evil.example"}}})
	case "/Accounts":
		answer(w, map[string]any{"Members": []any{link(service + "/Accounts/0")}, "Members@odata.nextLink": service +
			"/Accounts/more"})
	case "/Accounts/more":
		var members []any
		for i := range b.accounts[1:] {
			members = append(members, link(service+"/Accounts/"+string(rune('1'+i))))
		}
		answer(w, map[string]any{"Members": members})
	default:
		answer(w, b.accounts[rest[len(rest)-1]-'0'])
	}
	return true
}

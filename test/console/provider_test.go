package console_test

import (
	"fmt"
	"strings"
	"testing"

	"muster/internal/kit/testall"
	"muster/test/rig"
)

func TestSomebodySignsInAtTheSitesProvider(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	p := rig.NewProvider(t, "alice")
	r := rig.New(t, "")
	r.Site = r.File("site.yaml", `
site: lab
defaults: {project: aero, image: debian13-hpc, class: local, head_class: local}
login: {issuer: "`+p.Issuer+`", client_id: muster, scopes: [], create: true, for: 2h}
classes:
  - {name: local, select: ["substrate = local"]}
`)
	r.Start()
	console, _, _ := strings.Cut(r.Run("console", "--no-browser"), "#")
	p.Redirects(console)
	b := open(t)
	b.expects("401", p.URL) // before it is signed in and after it was; what the provider's own page says
	way := "Sign in at " + strings.TrimPrefix(p.URL, "http://")
	signIn := func() {
		b.click(way)
		b.until("the provider knows alice", fmt.Sprintf(`(() => {
			const onward = location.href.startsWith(%s) && new URLSearchParams(location.search).get('callback_url')
			if (!onward) return false
			const ask = (method, path, body) => {
				const request = new XMLHttpRequest()
				request.open(method, path, false)
				request.setRequestHeader('Content-Type', 'application/json')
				request.send(JSON.stringify(body))
				return request.status === 200
			}
			if (!ask('POST', '/api/auth/', {username: 'alice', password: 'alice'})) return false
			if (!ask('PUT', '/api/auth/grant/muster', {scope: 'openid'})) return false
			location.assign(onward + '&g_continue')
			return true
		})()`, quoted(p.URL)))
	}

	b.goTo(console)
	signIn()
	b.shows("You are in no project yet")
	if address := b.address(); strings.Contains(address, "code=") {
		t.Errorf("the code stays in the address: %s", address)
	}
	if kept := b.value(`JSON.stringify([sessionStorage.getItem('sign-in'), {...localStorage}, document.cookie])`); kept != `[null,{},""]` {
		t.Errorf("the browser keeps %s", kept)
	}
	b.click("Sign out")
	b.shows(way)

	r.Run("projects", "grant", "aero", "alice", "member")
	page := strings.TrimSuffix(console, "/sign-in") + "/projects/aero/usage"
	b.goTo(page)
	signIn()
	b.until("the page that alice wanted", fmt.Sprintf(`location.href === %s && document.title.startsWith('Usage')`, quoted(page)))
	planted := console + "?code=theirs&state=theirs"
	b.click("Sign out")
	b.shows(way)
	b.goTo(planted)
	b.shows("did not begin in this tab")
}

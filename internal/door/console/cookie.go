package console

import (
	"net/http"
	"net/url"
	"strings"
	"time"
)

// cookieName begins with what makes browsers refuse such a cookie from any other host, and for any other.
const cookieName = "__Host-muster"

// SignIn is the path that signs a browser in by a code. The code is in the part of an address that no browser sends anywhere.
func SignIn(code string) string { return "/sign-in#code=" + code }

// Cookie is what a browser keeps of being signed in, for life; 0: it forgets it. Pages of other sites make no requests with it.
// Over plain HTTP, browsers keep it for localhost and 127.0.0.1 only.
func Cookie(value string, life time.Duration) *http.Cookie {
	age := int(life.Seconds())
	if age <= 0 {
		age = -1 // written as 0
	}
	return &http.Cookie{Name: cookieName, Value: value, Path: "/", MaxAge: age, Secure: true, HttpOnly: true,
		SameSite: http.SameSiteStrictMode}
}

// CookieOf is the cookie of a request; "" if it has none, or two, of which somebody else has planted one.
func CookieOf(r *http.Request) string {
	if cookies := r.CookiesNamed(cookieName); len(cookies) == 1 {
		return cookies[0].Value
	}
	return ""
}

// Foreign says that another site's page makes a request. The web apps of clusters may be of the console's site in a browser's
// eyes, which sends the cookie along then.
func Foreign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return false
	case "": // browsers send no such header when they open a WebSocket, and programs never
		origin := r.Header.Get("Origin")
		from, err := url.Parse(origin)
		return origin != "" && (err != nil || !strings.EqualFold(from.Host, r.Host))
	}
	return true
}

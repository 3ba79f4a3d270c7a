package console

import (
	"net/http"
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

// CookieOf is the cookie of a request; "" if it has none, or two: then somebody else has planted one.
func CookieOf(r *http.Request) string {
	if cookies := r.CookiesNamed(cookieName); len(cookies) == 1 {
		return cookies[0].Value
	}
	return ""
}

// Foreign says that another site's page makes a request, by the library's rule for those that change something: here it is for
// all. The web apps of clusters may be of the console's site in a browser's eyes, which sends the cookie along then.
func Foreign(r *http.Request) bool {
	changes := *r
	changes.Method = http.MethodPost
	return http.NewCrossOriginProtection().Check(&changes) != nil
}

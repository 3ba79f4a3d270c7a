package apiv1

import (
	"muster/internal/door/access"
	"time"
)

// TunnelProtocol is what a client asks to upgrade to for a tunnel.
const TunnelProtocol = "muster-tunnel"

// Key is an SSH public key of the caller.
type Key struct {
	Fingerprint string    `json:"fingerprint"`
	Line        string    `json:"line" doc:"authorized_keys format"`
	CreatedAt   time.Time `json:"created_at"`
}

// Certificate lets the holder of a key into one cluster for a few minutes.
type Certificate struct {
	Certificate string `json:"certificate" doc:"OpenSSH user certificate"`
	Account     string `json:"account" doc:"the user's name on the cluster's nodes"`
	HostCA      string `json:"host_ca" doc:"signs the host certificates of the cluster's nodes, authorized_keys format"`
	Head        string `json:"head" doc:"host name of the head node"`
}

// AddKeyInput is what AddKey takes.
type AddKeyInput struct {
	Body AddKeyBody
}

// AddKeyBody is the body of a AddKeyInput.
type AddKeyBody struct {
	Line string `json:"line" doc:"the content of the .pub file" maxLength:"16384"`
}

// DeleteKeyInput is what DeleteKey takes.
type DeleteKeyInput struct {
	Fingerprint string `path:"fingerprint" doc:"SHA256:…, percent-encoded" maxLength:"100"`
}

// CertifyInput is what Certify takes.
type CertifyInput struct {
	ClusterRef
	Body CertifyBody
}

// CertifyBody is the body of a CertifyInput.
type CertifyBody struct {
	PublicKey string `json:"public_key" doc:"authorized_keys format" maxLength:"16384"`
}

// TunnelInput is what Tunnel takes.
type TunnelInput struct {
	ClusterRef
	Node    string `query:"node" doc:"host name; empty: the head" maxLength:"63"`
	Upgrade string `header:"Upgrade"`
}

// Web is the door for web apps.
type Web struct {
	Domain string `json:"domain" doc:"apps are below it"`
	CA     string `json:"ca,omitempty" doc:"PEM of the authority that browsers have to trust; absent if they know the door's"`
}

// WebApp is a web application of a cluster.
type WebApp struct {
	Name string `json:"name"`
	Node string `json:"node"`
	Port int    `json:"port"`
	URL  string `json:"url,omitempty" doc:"its address, for browsers that have signed in; absent if the site has no door for web apps"`
}

// Opened is what signs a browser in to an app.
type Opened struct {
	URL       string    `json:"url" doc:"open it in a browser; it works once"`
	ExpiresAt time.Time `json:"expires_at"`
	App       string    `json:"app"`
}

// OpenAppInput is what OpenApp takes.
type OpenAppInput struct {
	ClusterRef
	App string `path:"app" doc:"its name in the cluster's file" maxLength:"63"`
}

// Ways is how one logs in at this site.
type Ways struct {
	Issuer   string   `json:"issuer" doc:"the OpenID Connect provider that vouches for people"`
	ClientID string   `json:"client_id"`
	Scopes   []string `json:"scopes"`
	Auth     string   `json:"authorization_endpoint" doc:"where a browser goes"`
	Device   string   `json:"device_authorization_endpoint,omitempty" doc:"where a device code is asked for; absent: with a browser on the same host only"`
	Token    string   `json:"token_endpoint,omitempty" doc:"where a device code is exchanged"`
	Port     int      `json:"redirect_port,omitempty" doc:"of 127.0.0.1, that the provider sends the browser back to; absent: any"`
	For      string   `json:"for" doc:"how long a login lasts"`
}

// LoggedIn is a login: a token and, for a key, a certificate of the same life.
type LoggedIn struct {
	ID          string    `json:"id" doc:"of the token; deleting it ends the login and the certificate"`
	Token       string    `json:"token"`
	Person      string    `json:"person"`
	New         bool      `json:"new,omitempty" doc:"the person has never been here, and is in no project yet"`
	ExpiresAt   time.Time `json:"expires_at"`
	Certificate string    `json:"certificate,omitempty" doc:"OpenSSH user certificate, for the site's gateway only"`
}

type ProofGiven struct {
	IDToken   string `json:"id_token,omitempty" doc:"of a device flow" maxLength:"32768"`
	Code      string `json:"code,omitempty" doc:"that the browser came back with" maxLength:"4096"`
	Verifier  string `json:"verifier,omitempty" doc:"with code: of PKCE" maxLength:"128"`
	Redirect  string `json:"redirect,omitempty" doc:"with code: where the browser came back to" maxLength:"200"`
	Nonce     string `json:"nonce,omitempty" doc:"with code: that the ID token must have" maxLength:"128"`
	PublicKey string `json:"public_key,omitempty" doc:"to be certified, authorized_keys format" maxLength:"16384"`
	Name      string `json:"name,omitempty" doc:"where the login is from, for the list of tokens" maxLength:"100"`
}

// LogInInput is what LogIn takes.
type LogInInput struct {
	Body ProofGiven
}

// Session is one connection through an SSH gateway to one place.
type Session struct {
	ID         string     `json:"id"`
	Person     string     `json:"person"`
	Credential string     `json:"credential" doc:"fingerprint of a key, or ID of a login"`
	Project    string     `json:"project"`
	Kind       string     `json:"kind" doc:"of the place: cluster or centre"`
	Place      string     `json:"place"`
	What       string     `json:"what" doc:"shell, exec, sftp, forward, jump; several with commas"`
	Remote     string     `json:"remote" doc:"address it came from"`
	BeganAt    time.Time  `json:"began_at"`
	EndedAt    *time.Time `json:"ended_at,omitempty" doc:"absent while it is open"`
	Received   int64      `json:"received" doc:"bytes from the person; of an open session, some seconds ago"`
	Sent       int64      `json:"sent"`
	Outcome    string     `json:"outcome,omitempty" doc:"how it ended"`
	Recorded   bool       `json:"recorded,omitempty" doc:"what its terminals showed is kept"`
}

// Gateway is what people and their SSH clients have to know of the SSH gateway.
type Gateway struct {
	Address   string       `json:"address,omitempty" doc:"host:port; absent: this controller has none"`
	GatewayCA string       `json:"gateway_ca" doc:"signs the host certificates of gateways, authorized_keys format"`
	HostCA    string       `json:"host_ca" doc:"signs those of nodes, good for NODE.CLUSTER.PROJECT.muster and shorter"`
	Keys      []GatewayKey `json:"keys" doc:"the host key in use, then those that will follow it"`
	Account   string       `json:"account" doc:"the caller's on nodes"`
}

// GatewayKey is a host key of the gateways.
type GatewayKey struct {
	Line string    `json:"line" doc:"authorized_keys format"`
	From time.Time `json:"from" doc:"when it was or will be taken into use"`
}

// ListSessionsInput is what ListSessions takes.
type ListSessionsInput struct {
	Ended  bool   `query:"ended" doc:"those that have ended, too"`
	Limit  int    `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"how many at most"`
	Cursor string `query:"cursor" doc:"from the page before" maxLength:"200" pattern:"^([0-9]+-[a-z0-9-]+)?$"`
}

// EndSessionInput is what EndSession takes.
type EndSessionInput struct {
	Session string `path:"session" doc:"ID" maxLength:"40"`
}

// RotateGatewayKeyInput is what RotateGatewayKey takes.
type RotateGatewayKeyInput struct {
	After string `query:"after" default:"7d" doc:"how long the next key is announced before it takes over, as in 12h or 7d" maxLength:"20"`
}

// Token lets its bearer act as you.
type Token struct {
	ID        string       `json:"id"`
	Name      string       `json:"name" doc:"what it is for"`
	Kind      TokenKind    `json:"kind" enum:"local,api,login"`
	Scope     access.Scope `json:"scope"`
	Project   string       `json:"project,omitempty" doc:"the only one that it is for"`
	CreatedAt time.Time    `json:"created_at"`
	ExpiresAt time.Time    `json:"expires_at,omitzero"`
	UsedAt    time.Time    `json:"used_at,omitzero" doc:"to the minute"`
	Token     string       `json:"token,omitempty" doc:"the token itself, told once: when it is made"`
}

// NewToken is what is asked of a token.
type NewToken struct {
	Name    string       `json:"name" doc:"what it is for" minLength:"1" maxLength:"100"`
	Scope   access.Scope `json:"scope,omitempty" default:"all" doc:"read: it changes nothing and enters nowhere"`
	Project string       `json:"project,omitempty" doc:"the only one that it is to be for" maxLength:"63"`
	For     string       `json:"for,omitempty" doc:"how long it is good, as in 12h or 30d; 90d if left out, 366d at most" maxLength:"20"`
}

// AddTokenInput is what AddToken takes.
type AddTokenInput struct {
	Body NewToken
}

// AddPersonTokenInput is what AddPersonToken takes.
type AddPersonTokenInput struct {
	PersonRef
	Body NewToken
}

// DeleteTokenInput is what DeleteToken takes.
type DeleteTokenInput struct {
	Token string `path:"token" doc:"its ID" maxLength:"63"`
}

// TokenKind is where a token comes from.
type TokenKind string

// The kinds.
const (
	LocalToken TokenKind = "local" // lies in the data directory; never expires
	APIToken   TokenKind = "api"   // made by its person
	LoginToken TokenKind = "login" // of an OIDC login
)

package testserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority is a certificate authority for tests. [NewAuthority] creates it. Its
// methods must not be called concurrently.
type Authority struct {
	Pool     *x509.CertPool // contains its own certificate
	NotAfter time.Time      // when the certificates that it signs expire

	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority returns an authority whose certificates expire after a day, unless
// NotAfter is changed.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{Pool: x509.NewCertPool(), NotAfter: time.Now().Add(24 * time.Hour), t: t}
	a.cert, a.key = a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "headgate's tests"}, IsCA: true, KeyUsage: x509.KeyUsageCertSign,
	})
	a.Pool.AddCert(a.cert)
	return a
}

// Pair signs a certificate for host names and IP addresses, for use by servers and
// clients.
func (a *Authority) Pair(serial int64, names ...string) tls.Certificate {
	a.t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: names[0]}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	cert, key := a.sign(template)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}
}

// sign completes and signs a certificate. The first one is the authority's own.
func (a *Authority) sign(template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	template.NotBefore, template.NotAfter, template.BasicConstraintsValid = time.Now().Add(-time.Hour), a.NotAfter, true
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	issuer, by := a.cert, a.key
	if issuer == nil {
		issuer, by = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, &key.PublicKey, by)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

// Write signs a certificate as [Authority.Pair] does, and writes tls.crt, tls.key and
// the authority's ca.crt to a folder. Each file is replaced atomically.
func (a *Authority) Write(dir string, serial int64, names ...string) tls.Certificate {
	a.t.Helper()
	pair := a.Pair(serial, names...)
	key, err := x509.MarshalECPrivateKey(pair.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		a.t.Fatal(err)
	}
	a.writePEM(filepath.Join(dir, "tls.key"), "EC PRIVATE KEY", key)
	a.writePEM(filepath.Join(dir, "tls.crt"), "CERTIFICATE", pair.Certificate[0])
	a.writePEM(filepath.Join(dir, "ca.crt"), "CERTIFICATE", a.cert.Raw)
	return pair
}

func (a *Authority) writePEM(file, kind string, der []byte) {
	a.t.Helper()
	ReplaceFile(a.t, file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// ReplaceFile writes a file atomically: a reader gets the old content or the new one.
func ReplaceFile(t testing.TB, file string, text []byte) {
	t.Helper()
	if err := os.WriteFile(file+".new", text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

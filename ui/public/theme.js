// Before anything is drawn: the colours that were chosen, else those of the system.
try {
  var scheme = localStorage.getItem('scheme')
  if (scheme) document.documentElement.style.colorScheme = scheme
} catch (e) {}

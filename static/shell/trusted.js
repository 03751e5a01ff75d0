// The only way from text to elements here (Trusted Types): answers of this installation's own pages. No text becomes a script or its address.

const policy = window.trustedTypes?.createPolicy("fabric", { createHTML: (text) => text });

export function parsed(text) {
  return new DOMParser().parseFromString(policy ? policy.createHTML(text) : text, "text/html");
}

// htmx parses its answers by this policy. The policy makes no functions.
if (policy) window.htmx?.registerExtension("trusted", { init: (api) => api.initSecurity(policy) });

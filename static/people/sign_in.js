// Signing in: a link's token comes behind the "#", which no browser sends, and goes into the form; the browser offers passkeys.
// Without this script the token is pasted by hand, and passkeys are not offered.

const token = document.getElementById("token");
function takeToken() {
  if (location.hash.length < 2) return;
  token.value = decodeURIComponent(location.hash.slice(1));
  // Remove the token from the address bar and the history: the next user of this browser must not find it.
  history.replaceState(null, "", location.pathname + location.search);
  document.getElementById("token-field").hidden = true;
  const form = token.form;
  if (form.dataset.opens) form.submit();
}
if (token) {
  takeToken();
  // A link that is pasted over the address of this page loads nothing anew.
  addEventListener("hashchange", takeToken);
}

const able = window.PublicKeyCredential?.parseRequestOptionsFromJSON && window.PublicKeyCredential?.parseCreationOptionsFromJSON;

async function answer(form) {
  const said = form.querySelector("[data-said]");
  said.textContent = "";
  const options = JSON.parse(form.dataset.passkey);
  try {
    const found = form.dataset.makes
      ? await navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(options) })
      : await navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options) });
    form.elements.answer.value = JSON.stringify(found.toJSON());
    form.submit();
  } catch (error) {
    said.textContent = error.name === "InvalidStateError"
      ? "This device has a passkey for you here already."
      : "No passkey was shown: try again, or use another way.";
  }
}

for (const form of document.querySelectorAll("form[data-passkey]")) {
  form.hidden = !able;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    answer(form);
  });
}

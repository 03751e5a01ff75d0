// A foreign provider of identities (npm's oidc-provider, certified by the OpenID Foundation), with accounts out of a file that is read
// anew each time: node oidc_server.mjs LIBRARY PORT ACCOUNTS REDIRECT-URI. Its own pages take any password.
import { readFileSync } from "node:fs";

const [library, port, accounts, back] = process.argv.slice(2);
const { default: Provider } = await import(library);

const known = () => JSON.parse(readFileSync(accounts, "utf8"));

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [
    {
      client_id: "fabric",
      client_secret: "a-secret-of-the-tests",
      redirect_uris: [back],
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
    },
  ],
  scopes: ["openid", "offline_access", "groups"],
  claims: {
    openid: ["sub"],
    email: ["email", "email_verified"],
    profile: ["preferred_username"],
    groups: ["groups"],
  },
  cookies: { keys: ["only for tests"] },
  findAccount: (_, sub) => {
    const found = known()[sub];
    return found && { accountId: sub, claims: () => ({ sub, preferred_username: sub, ...found }) };
  },
});
provider.listen(Number(port), "127.0.0.1");

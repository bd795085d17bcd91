/** Write package-lock.json anew: names, versions and digests only, no address of anybody. */

import { execFileSync } from 'node:child_process';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';

execFileSync('npm', ['install', '--package-lock-only', '--no-audit', '--no-fund'], { stdio: 'inherit' });
const lock = JSON.parse(readFileSync('package-lock.json', 'utf8'));
for (const entry of Object.values(lock.packages)) {
  delete entry.funding;
  delete entry.resolved;
}
writeFileSync('package-lock.json.new', `${JSON.stringify(lock, null, 2)}\n`);
renameSync('package-lock.json.new', 'package-lock.json');

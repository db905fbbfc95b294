"""Collects evidence of running SGLang servers, where configurator itself need not be.

The standard library only, and nothing of the rest of configurator: the probe bundle carries this
package into engine containers under another name, so its modules import each other relatively.
It observes and never judges; secrets are redacted before anything is written.
"""
